BEGIN TRANSACTION;
CREATE TABLE accounts (
	name VARCHAR(128) DEFAULT '' NOT NULL, 
	description VARCHAR(255) DEFAULT '' NOT NULL, 
	organization VARCHAR(255) DEFAULT '' NOT NULL, 
	flags VARCHAR(255) DEFAULT '' NOT NULL, 
	created_us INTEGER DEFAULT '0' NOT NULL, 
	modified_us INTEGER DEFAULT '0' NOT NULL, 
	version INTEGER DEFAULT '0' NOT NULL, 
	is_deleted INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (name), 
	CHECK (length("name") <= 128), 
	CHECK (length("description") <= 255), 
	CHECK (length("organization") <= 255), 
	CHECK (length("flags") <= 255)
);
INSERT INTO "accounts" VALUES('root','default root account','root','',0,0,1,0);
INSERT INTO "accounts" VALUES('name ''n'' 101','description ''n'' 101','organization ''n'' 101','flags ''n'' 101',1790101004000000,1790101005000000,101006,1);
INSERT INTO "accounts" VALUES('name ''n'' 102','description ''n'' 102','organization ''n'' 102','flags ''n'' 102',1790102004000000,1790102005000000,102006,0);
CREATE TABLE association_usage_day (
	cluster_id INTEGER NOT NULL, 
	start_us INTEGER NOT NULL, 
	association_id INTEGER NOT NULL, 
	qos_id INTEGER NOT NULL, 
	tres_id INTEGER NOT NULL, 
	allocated_s INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (cluster_id, start_us, association_id, qos_id, tres_id)
);
INSERT INTO "association_usage_day" VALUES(101,1790101001000000,101,101,101,101005);
INSERT INTO "association_usage_day" VALUES(102,1790102001000000,102,102,102,102005);
CREATE TABLE association_usage_hour (
	cluster_id INTEGER NOT NULL, 
	start_us INTEGER NOT NULL, 
	association_id INTEGER NOT NULL, 
	qos_id INTEGER NOT NULL, 
	tres_id INTEGER NOT NULL, 
	allocated_s INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (cluster_id, start_us, association_id, qos_id, tres_id)
);
INSERT INTO "association_usage_hour" VALUES(101,1790101001000000,101,101,101,101005);
INSERT INTO "association_usage_hour" VALUES(102,1790102001000000,102,102,102,102005);
CREATE TABLE association_usage_month (
	cluster_id INTEGER NOT NULL, 
	start_us INTEGER NOT NULL, 
	association_id INTEGER NOT NULL, 
	qos_id INTEGER NOT NULL, 
	tres_id INTEGER NOT NULL, 
	allocated_s INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (cluster_id, start_us, association_id, qos_id, tres_id)
);
INSERT INTO "association_usage_month" VALUES(101,1790101001000000,101,101,101,101005);
INSERT INTO "association_usage_month" VALUES(102,1790102001000000,102,102,102,102005);
CREATE TABLE associations (
	id INTEGER NOT NULL, 
	cluster_id INTEGER NOT NULL, 
	account VARCHAR(128) DEFAULT '' NOT NULL, 
	user VARCHAR(128) DEFAULT '' NOT NULL, 
	partition VARCHAR(128) DEFAULT '' NOT NULL, 
	parent_id INTEGER DEFAULT '0' NOT NULL, 
	lineage VARCHAR(1024) DEFAULT '' NOT NULL, 
	is_default INTEGER DEFAULT '0' NOT NULL, 
	shares INTEGER DEFAULT '1' NOT NULL, 
	default_qos_id INTEGER DEFAULT '0' NOT NULL, 
	qos VARCHAR(1024) DEFAULT '' NOT NULL, 
	delta_qos VARCHAR(1024) DEFAULT '' NOT NULL, 
	limits TEXT NOT NULL, 
	comment TEXT NOT NULL, 
	usage_reset_us INTEGER DEFAULT '0' NOT NULL, 
	created_us INTEGER DEFAULT '0' NOT NULL, 
	modified_us INTEGER DEFAULT '0' NOT NULL, 
	version INTEGER DEFAULT '0' NOT NULL, 
	is_deleted INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_association UNIQUE (cluster_id, account, user, partition), 
	CHECK (length("account") <= 128), 
	CHECK (length("user") <= 128), 
	CHECK (length("partition") <= 128), 
	CHECK (length("lineage") <= 1024), 
	CHECK (length("qos") <= 1024), 
	CHECK (length("delta_qos") <= 1024)
);
INSERT INTO "associations" VALUES(101,101001,'account ''n'' 101','user ''n'' 101','partition ''n'' 101',101005,'lineage ''n'' 101',1,101008,101009,'qos ''n'' 101','delta_qos ''n'' 101','{"GrpJobs":101}','comment ''n'' 101',1790101014000000,1790101015000000,1790101016000000,101017,1);
INSERT INTO "associations" VALUES(102,102001,'account ''n'' 102','user ''n'' 102','partition ''n'' 102',102005,'lineage ''n'' 102',0,102008,102009,'qos ''n'' 102','delta_qos ''n'' 102','{"GrpJobs":102}','comment ''n'' 102',1790102014000000,1790102015000000,1790102016000000,102017,0);
CREATE TABLE cluster_nodes (
	cluster_id INTEGER NOT NULL, 
	node_id INTEGER NOT NULL, 
	name VARCHAR(128) DEFAULT '' NOT NULL, 
	is_gone INTEGER DEFAULT '0' NOT NULL, 
	tres TEXT NOT NULL, 
	threads INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (cluster_id, node_id), 
	CHECK (length("name") <= 128)
);
INSERT INTO "cluster_nodes" VALUES(101,101,'name ''n'' 101',1,'tres ''n'' 101',101005);
INSERT INTO "cluster_nodes" VALUES(102,102,'name ''n'' 102',0,'tres ''n'' 102',102005);
CREATE TABLE cluster_partitions (
	cluster_id INTEGER NOT NULL, 
	name VARCHAR(128) DEFAULT '' NOT NULL, 
	billing_weights TEXT NOT NULL, 
	def_mem_per_cpu_mib INTEGER DEFAULT '0' NOT NULL, 
	def_mem_per_node_mib INTEGER DEFAULT '0' NOT NULL, 
	def_mem_per_gpu_mib INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (cluster_id, name), 
	CHECK (length("name") <= 128)
);
INSERT INTO "cluster_partitions" VALUES(101,'name ''n'' 101','billing_weights ''n'' 101',101003,101004,101005);
INSERT INTO "cluster_partitions" VALUES(102,'name ''n'' 102','billing_weights ''n'' 102',102003,102004,102005);
CREATE TABLE cluster_resources (
	resource_id INTEGER NOT NULL, 
	cluster_id INTEGER NOT NULL, 
	allowed INTEGER DEFAULT '0' NOT NULL, 
	created_us INTEGER DEFAULT '0' NOT NULL, 
	modified_us INTEGER DEFAULT '0' NOT NULL, 
	version INTEGER DEFAULT '0' NOT NULL, 
	is_deleted INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (resource_id, cluster_id)
);
INSERT INTO "cluster_resources" VALUES(101,101,101002,1790101003000000,1790101004000000,101005,1);
INSERT INTO "cluster_resources" VALUES(102,102,102002,1790102003000000,1790102004000000,102005,0);
CREATE TABLE cluster_usage_day (
	cluster_id INTEGER NOT NULL, 
	start_us INTEGER NOT NULL, 
	tres_id INTEGER NOT NULL, 
	count INTEGER DEFAULT '0' NOT NULL, 
	allocated_s INTEGER DEFAULT '0' NOT NULL, 
	down_s INTEGER DEFAULT '0' NOT NULL, 
	planned_down_s INTEGER DEFAULT '0' NOT NULL, 
	idle_s INTEGER DEFAULT '0' NOT NULL, 
	planned_s INTEGER DEFAULT '0' NOT NULL, 
	over_s INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (cluster_id, start_us, tres_id)
);
INSERT INTO "cluster_usage_day" VALUES(101,1790101001000000,101,101003,101004,101005,101006,101007,101008,101009);
INSERT INTO "cluster_usage_day" VALUES(102,1790102001000000,102,102003,102004,102005,102006,102007,102008,102009);
CREATE TABLE cluster_usage_hour (
	cluster_id INTEGER NOT NULL, 
	start_us INTEGER NOT NULL, 
	tres_id INTEGER NOT NULL, 
	count INTEGER DEFAULT '0' NOT NULL, 
	allocated_s INTEGER DEFAULT '0' NOT NULL, 
	down_s INTEGER DEFAULT '0' NOT NULL, 
	planned_down_s INTEGER DEFAULT '0' NOT NULL, 
	idle_s INTEGER DEFAULT '0' NOT NULL, 
	planned_s INTEGER DEFAULT '0' NOT NULL, 
	over_s INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (cluster_id, start_us, tres_id)
);
INSERT INTO "cluster_usage_hour" VALUES(101,1790101001000000,101,101003,101004,101005,101006,101007,101008,101009);
INSERT INTO "cluster_usage_hour" VALUES(102,1790102001000000,102,102003,102004,102005,102006,102007,102008,102009);
CREATE TABLE cluster_usage_month (
	cluster_id INTEGER NOT NULL, 
	start_us INTEGER NOT NULL, 
	tres_id INTEGER NOT NULL, 
	count INTEGER DEFAULT '0' NOT NULL, 
	allocated_s INTEGER DEFAULT '0' NOT NULL, 
	down_s INTEGER DEFAULT '0' NOT NULL, 
	planned_down_s INTEGER DEFAULT '0' NOT NULL, 
	idle_s INTEGER DEFAULT '0' NOT NULL, 
	planned_s INTEGER DEFAULT '0' NOT NULL, 
	over_s INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (cluster_id, start_us, tres_id)
);
INSERT INTO "cluster_usage_month" VALUES(101,1790101001000000,101,101003,101004,101005,101006,101007,101008,101009);
INSERT INTO "cluster_usage_month" VALUES(102,1790102001000000,102,102003,102004,102005,102006,102007,102008,102009);
CREATE TABLE clusters (
	id INTEGER NOT NULL, 
	name VARCHAR(64) DEFAULT '' NOT NULL, 
	control_host VARCHAR(255) DEFAULT '' NOT NULL, 
	control_port INTEGER DEFAULT '0' NOT NULL, 
	rpc_version INTEGER DEFAULT '0' NOT NULL, 
	classification VARCHAR(64) DEFAULT '' NOT NULL, 
	flags VARCHAR(255) DEFAULT '' NOT NULL, 
	store_flags VARCHAR(255) DEFAULT '' NOT NULL, 
	created_us INTEGER DEFAULT '0' NOT NULL, 
	modified_us INTEGER DEFAULT '0' NOT NULL, 
	version INTEGER DEFAULT '0' NOT NULL, 
	is_deleted INTEGER DEFAULT '0' NOT NULL, 
	federation VARCHAR(255) DEFAULT '' NOT NULL, 
	federation_id INTEGER DEFAULT '0' NOT NULL, 
	federation_state INTEGER DEFAULT '0' NOT NULL, 
	features VARCHAR(255) DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name), 
	CHECK (length("name") <= 64), 
	CHECK (length("control_host") <= 255), 
	CHECK (length("classification") <= 64), 
	CHECK (length("flags") <= 255), 
	CHECK (length("store_flags") <= 255), 
	CHECK (length("federation") <= 255), 
	CHECK (length("features") <= 255)
);
INSERT INTO "clusters" VALUES(101,'name ''n'' 101','control_host ''n'' 101',101003,101004,'classification ''n'' 101','flags ''n'' 101','store_flags ''n'' 101',1790101008000000,1790101009000000,101010,1,'federation ''n'' 101',101013,101014,'features ''n'' 101');
INSERT INTO "clusters" VALUES(102,'name ''n'' 102','control_host ''n'' 102',102003,102004,'classification ''n'' 102','flags ''n'' 102','store_flags ''n'' 102',1790102008000000,1790102009000000,102010,0,'federation ''n'' 102',102013,102014,'features ''n'' 102');
CREATE TABLE coordinators (
	account VARCHAR(128) DEFAULT '' NOT NULL, 
	user VARCHAR(128) DEFAULT '' NOT NULL, 
	PRIMARY KEY (account, user), 
	CHECK (length("account") <= 128), 
	CHECK (length("user") <= 128)
);
INSERT INTO "coordinators" VALUES('account ''n'' 101','user ''n'' 101');
INSERT INTO "coordinators" VALUES('account ''n'' 102','user ''n'' 102');
CREATE TABLE cursors (
	cluster_id INTEGER NOT NULL, 
	journal_id VARCHAR(64) DEFAULT '' NOT NULL, 
	epoch INTEGER DEFAULT '0' NOT NULL, 
	sequence INTEGER DEFAULT '0' NOT NULL, 
	updated_us INTEGER DEFAULT '0' NOT NULL, 
	records INTEGER DEFAULT '0' NOT NULL, 
	checksum VARCHAR(16) DEFAULT '' NOT NULL, 
	PRIMARY KEY (cluster_id), 
	CHECK (length("journal_id") <= 64), 
	CHECK (length("checksum") <= 16)
);
INSERT INTO "cursors" VALUES(101,'journal_id ''n'' 101',101002,101003,1790101004000000,101005,'checksum ''n'' 101');
INSERT INTO "cursors" VALUES(102,'journal_id ''n'' 102',102002,102003,1790102004000000,102005,'checksum ''n'' 102');
CREATE TABLE federations (
	name VARCHAR(128) DEFAULT '' NOT NULL, 
	flags VARCHAR(255) DEFAULT '' NOT NULL, 
	created_us INTEGER DEFAULT '0' NOT NULL, 
	modified_us INTEGER DEFAULT '0' NOT NULL, 
	version INTEGER DEFAULT '0' NOT NULL, 
	is_deleted INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (name), 
	CHECK (length("name") <= 128), 
	CHECK (length("flags") <= 255)
);
INSERT INTO "federations" VALUES('name ''n'' 101','flags ''n'' 101',1790101002000000,1790101003000000,101004,1);
INSERT INTO "federations" VALUES('name ''n'' 102','flags ''n'' 102',1790102002000000,1790102003000000,102004,0);
CREATE TABLE jobs (
	job_index INTEGER NOT NULL, 
	cluster_id INTEGER NOT NULL, 
	job_id INTEGER DEFAULT '0' NOT NULL, 
	submit_us INTEGER DEFAULT '0' NOT NULL, 
	attempt INTEGER DEFAULT '0' NOT NULL, 
	is_last INTEGER DEFAULT '1' NOT NULL, 
	sluid INTEGER DEFAULT '0' NOT NULL, 
	original_sluid INTEGER DEFAULT '0' NOT NULL, 
	array_job_id INTEGER DEFAULT '0' NOT NULL, 
	array_task_id INTEGER DEFAULT '-1' NOT NULL, 
	array_tasks TEXT NOT NULL, 
	array_max_tasks INTEGER DEFAULT '0' NOT NULL, 
	het_job_id INTEGER DEFAULT '0' NOT NULL, 
	het_job_offset INTEGER DEFAULT '-1' NOT NULL, 
	association_id INTEGER DEFAULT '0' NOT NULL, 
	account VARCHAR(128) DEFAULT '' NOT NULL, 
	uid INTEGER DEFAULT '0' NOT NULL, 
	gid INTEGER DEFAULT '0' NOT NULL, 
	user VARCHAR(128) DEFAULT '' NOT NULL, 
	"group" VARCHAR(128) DEFAULT '' NOT NULL, 
	partition VARCHAR(255) DEFAULT '' NOT NULL, 
	qos VARCHAR(128) DEFAULT '' NOT NULL, 
	qos_requested VARCHAR(255) DEFAULT '' NOT NULL, 
	wckey VARCHAR(128) DEFAULT '' NOT NULL, 
	name VARCHAR(255) DEFAULT '' NOT NULL, 
	priority INTEGER DEFAULT '0' NOT NULL, 
	state VARCHAR(32) DEFAULT '' NOT NULL, 
	reason VARCHAR(128) DEFAULT '' NOT NULL, 
	eligible_us INTEGER DEFAULT '0' NOT NULL, 
	start_us INTEGER DEFAULT '0' NOT NULL, 
	end_us INTEGER DEFAULT '0' NOT NULL, 
	suspended_us INTEGER DEFAULT '0' NOT NULL, 
	suspend_start_us INTEGER DEFAULT '0' NOT NULL, 
	time_limit_min INTEGER DEFAULT '0' NOT NULL, 
	exit_code INTEGER DEFAULT '0' NOT NULL, 
	derived_exit_code INTEGER DEFAULT '0' NOT NULL, 
	kill_uid INTEGER DEFAULT '-1' NOT NULL, 
	cpus_requested INTEGER DEFAULT '0' NOT NULL, 
	cpus_allocated INTEGER DEFAULT '0' NOT NULL, 
	nodes_requested INTEGER DEFAULT '0' NOT NULL, 
	nodes_allocated INTEGER DEFAULT '0' NOT NULL, 
	node_list TEXT NOT NULL, 
	mem_mib INTEGER DEFAULT '0' NOT NULL, 
	mem_is_per_cpu INTEGER DEFAULT '0' NOT NULL, 
	tres_requested TEXT NOT NULL, 
	tres_allocated TEXT NOT NULL, 
	gres_used TEXT NOT NULL, 
	constraints TEXT NOT NULL, 
	container TEXT NOT NULL, 
	licenses TEXT NOT NULL, 
	reservation VARCHAR(255) DEFAULT '' NOT NULL, 
	reservation_requested VARCHAR(255) DEFAULT '' NOT NULL, 
	reservation_id INTEGER DEFAULT '0' NOT NULL, 
	work_dir TEXT NOT NULL, 
	std_in TEXT NOT NULL, 
	std_out TEXT NOT NULL, 
	std_err TEXT NOT NULL, 
	submit_line TEXT NOT NULL, 
	comment TEXT NOT NULL, 
	admin_comment TEXT NOT NULL, 
	system_comment TEXT NOT NULL, 
	extra TEXT NOT NULL, 
	flags VARCHAR(255) DEFAULT '' NOT NULL, 
	failed_node VARCHAR(255) DEFAULT '' NOT NULL, 
	mcs_label VARCHAR(255) DEFAULT '' NOT NULL, 
	"exclusive" VARCHAR(16) DEFAULT '' NOT NULL, 
	oversubscribe VARCHAR(16) DEFAULT '' NOT NULL, 
	segment_size INTEGER DEFAULT '0' NOT NULL, 
	requeue_count INTEGER DEFAULT '0' NOT NULL, 
	script_hash VARCHAR(64) DEFAULT '' NOT NULL, 
	environment_hash VARCHAR(64) DEFAULT '' NOT NULL, 
	modified_us INTEGER DEFAULT '0' NOT NULL, 
	summed_tres VARCHAR(255) DEFAULT '' NOT NULL, span_class INTEGER GENERATED ALWAYS AS (CASE WHEN end_us = 0 THEN 0 WHEN end_us - CASE WHEN attempt > 0 AND submit_us < eligible_us THEN submit_us ELSE eligible_us END <= 3600000000 THEN 1 WHEN end_us - CASE WHEN attempt > 0 AND submit_us < eligible_us THEN submit_us ELSE eligible_us END <= 14400000000 THEN 2 WHEN end_us - CASE WHEN attempt > 0 AND submit_us < eligible_us THEN submit_us ELSE eligible_us END <= 57600000000 THEN 3 WHEN end_us - CASE WHEN attempt > 0 AND submit_us < eligible_us THEN submit_us ELSE eligible_us END <= 230400000000 THEN 4 WHEN end_us - CASE WHEN attempt > 0 AND submit_us < eligible_us THEN submit_us ELSE eligible_us END <= 921600000000 THEN 5 WHEN end_us - CASE WHEN attempt > 0 AND submit_us < eligible_us THEN submit_us ELSE eligible_us END <= 3686400000000 THEN 6 ELSE 7 END) VIRTUAL, 
	PRIMARY KEY (job_index), 
	CHECK (length("account") <= 128), 
	CHECK (length("user") <= 128), 
	CHECK (length("group") <= 128), 
	CHECK (length("partition") <= 255), 
	CHECK (length("qos") <= 128), 
	CHECK (length("qos_requested") <= 255), 
	CHECK (length("wckey") <= 128), 
	CHECK (length("name") <= 255), 
	CHECK (length("state") <= 32), 
	CHECK (length("reason") <= 128), 
	CHECK (length("reservation") <= 255), 
	CHECK (length("reservation_requested") <= 255), 
	CHECK (length("flags") <= 255), 
	CHECK (length("failed_node") <= 255), 
	CHECK (length("mcs_label") <= 255), 
	CHECK (length("exclusive") <= 16), 
	CHECK (length("oversubscribe") <= 16), 
	CHECK (length("script_hash") <= 64), 
	CHECK (length("environment_hash") <= 64), 
	CHECK (length("summed_tres") <= 255)
);
INSERT INTO "jobs" VALUES(101,101001,101002,1790101003000000,101004,1,101006,101007,101008,101009,'array_tasks ''n'' 101',101011,101012,101013,101014,'account ''n'' 101',101016,101017,'user ''n'' 101','group ''n'' 101','partition ''n'' 101','qos ''n'' 101','qos_requested ''n'' 101','wckey ''n'' 101','name ''n'' 101',101025,'state ''n'' 101','reason ''n'' 101',1790101028000000,1790101029000000,1790101030000000,60000000,1790101032000000,101033,101034,101035,101036,101037,101038,101039,101040,'node_list ''n'' 101',101042,101043,'tres_requested ''n'' 101','tres_allocated ''n'' 101','gres_used ''n'' 101','constraints ''n'' 101','container ''n'' 101','licenses ''n'' 101','reservation ''n'' 101','reservation_requested ''n'' 101',101052,'work_dir ''n'' 101','std_in ''n'' 101','std_out ''n'' 101','std_err ''n'' 101','submit_line ''n'' 101','comment ''n'' 101','admin_comment ''n'' 101','system_comment ''n'' 101','extra ''n'' 101','flags ''n'' 101','failed_node ''n'' 101','mcs_label ''n'' 101','exclusive ''n'' 10','oversubscribe ''n',101067,101068,'script_hash ''n'' 101','environment_hash ''n'' 101',1790101071000000,'summed_tres ''n'' 101');
INSERT INTO "jobs" VALUES(102,102001,102002,1790102003000000,102004,0,102006,102007,102008,102009,'array_tasks ''n'' 102',102011,102012,102013,102014,'account ''n'' 102',102016,102017,'user ''n'' 102','group ''n'' 102','partition ''n'' 102','qos ''n'' 102','qos_requested ''n'' 102','wckey ''n'' 102','name ''n'' 102',102025,'state ''n'' 102','reason ''n'' 102',1790102028000000,1790102029000000,1790102030000000,60000000,1790102032000000,102033,102034,102035,102036,102037,102038,102039,102040,'node_list ''n'' 102',102042,102043,'tres_requested ''n'' 102','tres_allocated ''n'' 102','gres_used ''n'' 102','constraints ''n'' 102','container ''n'' 102','licenses ''n'' 102','reservation ''n'' 102','reservation_requested ''n'' 102',102052,'work_dir ''n'' 102','std_in ''n'' 102','std_out ''n'' 102','std_err ''n'' 102','submit_line ''n'' 102','comment ''n'' 102','admin_comment ''n'' 102','system_comment ''n'' 102','extra ''n'' 102','flags ''n'' 102','failed_node ''n'' 102','mcs_label ''n'' 102','exclusive ''n'' 10','oversubscribe ''n',102067,102068,'script_hash ''n'' 102','environment_hash ''n'' 102',1790102071000000,'summed_tres ''n'' 102');
CREATE TABLE last_ran (
	cluster_id INTEGER NOT NULL, 
	hour_us INTEGER DEFAULT '0' NOT NULL, 
	day_us INTEGER DEFAULT '0' NOT NULL, 
	month_us INTEGER DEFAULT '0' NOT NULL, 
	claimed_us INTEGER DEFAULT '0' NOT NULL, 
	changed_us INTEGER DEFAULT '0' NOT NULL, 
	purged_us INTEGER DEFAULT '0' NOT NULL, 
	usage_purged_us INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (cluster_id)
);
INSERT INTO "last_ran" VALUES(101,1790101001000000,1790101002000000,1790101003000000,1790101004000000,1790101005000000,1790101006000000,1790101007000000);
INSERT INTO "last_ran" VALUES(102,1790102001000000,1790102002000000,1790102003000000,1790102004000000,1790102005000000,1790102006000000,1790102007000000);
CREATE TABLE node_events (
	cluster_id INTEGER NOT NULL, 
	node_name VARCHAR(128) DEFAULT '' NOT NULL, 
	start_us INTEGER NOT NULL, 
	end_us INTEGER DEFAULT '0' NOT NULL, 
	state VARCHAR(64) DEFAULT '' NOT NULL, 
	reason TEXT NOT NULL, 
	reason_uid INTEGER DEFAULT '-1' NOT NULL, 
	tres TEXT NOT NULL, 
	cluster_nodes TEXT NOT NULL, 
	PRIMARY KEY (cluster_id, node_name, start_us), 
	CHECK (length("node_name") <= 128), 
	CHECK (length("state") <= 64)
);
INSERT INTO "node_events" VALUES(101,'node_name ''n'' 101',1790101002000000,1790101003000000,'state ''n'' 101','reason ''n'' 101',101006,'tres ''n'' 101','cluster_nodes ''n'' 101');
INSERT INTO "node_events" VALUES(102,'node_name ''n'' 102',1790102002000000,1790102003000000,'state ''n'' 102','reason ''n'' 102',102006,'tres ''n'' 102','cluster_nodes ''n'' 102');
CREATE TABLE node_instances (
	cluster_id INTEGER NOT NULL, 
	node_name VARCHAR(128) DEFAULT '' NOT NULL, 
	start_us INTEGER NOT NULL, 
	end_us INTEGER DEFAULT '0' NOT NULL, 
	instance_id VARCHAR(255) DEFAULT '' NOT NULL, 
	instance_type VARCHAR(255) DEFAULT '' NOT NULL, 
	extra TEXT NOT NULL, 
	PRIMARY KEY (cluster_id, node_name, start_us), 
	CHECK (length("node_name") <= 128), 
	CHECK (length("instance_id") <= 255), 
	CHECK (length("instance_type") <= 255)
);
INSERT INTO "node_instances" VALUES(101,'node_name ''n'' 101',1790101002000000,1790101003000000,'instance_id ''n'' 101','instance_type ''n'' 101','extra ''n'' 101');
INSERT INTO "node_instances" VALUES(102,'node_name ''n'' 102',1790102002000000,1790102003000000,'instance_id ''n'' 102','instance_type ''n'' 102','extra ''n'' 102');
CREATE TABLE problem_rows (
	id INTEGER NOT NULL, 
	cluster_id INTEGER NOT NULL, 
	journal_id VARCHAR(64) DEFAULT '' NOT NULL, 
	sequence INTEGER DEFAULT '0' NOT NULL, 
	time_us INTEGER DEFAULT '0' NOT NULL, 
	kind VARCHAR(64) DEFAULT '' NOT NULL, 
	job_id INTEGER DEFAULT '0' NOT NULL, 
	error VARCHAR(1024) DEFAULT '' NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (id), 
	CHECK (length("journal_id") <= 64), 
	CHECK (length("kind") <= 64), 
	CHECK (length("error") <= 1024)
);
INSERT INTO "problem_rows" VALUES(101,101001,'journal_id ''n'' 101',101003,1790101004000000,'kind ''n'' 101',101006,'error ''n'' 101','record ''n'' 101');
INSERT INTO "problem_rows" VALUES(102,102001,'journal_id ''n'' 102',102003,1790102004000000,'kind ''n'' 102',102006,'error ''n'' 102','record ''n'' 102');
CREATE TABLE qos (
	id INTEGER NOT NULL, 
	name VARCHAR(128) DEFAULT '' NOT NULL, 
	description VARCHAR(255) DEFAULT '' NOT NULL, 
	flags VARCHAR(255) DEFAULT '' NOT NULL, 
	preempt VARCHAR(255) DEFAULT '' NOT NULL, 
	preempt_mode VARCHAR(64) DEFAULT '' NOT NULL, 
	priority INTEGER DEFAULT '0' NOT NULL, 
	grace_time_s INTEGER DEFAULT '0' NOT NULL, 
	usage_reset_us INTEGER DEFAULT '0' NOT NULL, 
	limits TEXT NOT NULL, 
	created_us INTEGER DEFAULT '0' NOT NULL, 
	modified_us INTEGER DEFAULT '0' NOT NULL, 
	version INTEGER DEFAULT '0' NOT NULL, 
	is_deleted INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name), 
	CHECK (length("name") <= 128), 
	CHECK (length("description") <= 255), 
	CHECK (length("flags") <= 255), 
	CHECK (length("preempt") <= 255), 
	CHECK (length("preempt_mode") <= 64)
);
INSERT INTO "qos" VALUES(1,'normal','Normal QOS default','','','cluster',0,0,0,'{}',0,0,1,0);
INSERT INTO "qos" VALUES(101,'name ''n'' 101','description ''n'' 101','flags ''n'' 101','preempt ''n'' 101','preempt_mode ''n'' 101',101006,101007,1790101008000000,'{"GrpJobs":101}',1790101010000000,1790101011000000,101012,1);
INSERT INTO "qos" VALUES(102,'name ''n'' 102','description ''n'' 102','flags ''n'' 102','preempt ''n'' 102','preempt_mode ''n'' 102',102006,102007,1790102008000000,'{"GrpJobs":102}',1790102010000000,1790102011000000,102012,0);
CREATE TABLE reservations (
	cluster_id INTEGER NOT NULL, 
	name VARCHAR(255) DEFAULT '' NOT NULL, 
	start_us INTEGER NOT NULL, 
	end_us INTEGER DEFAULT '0' NOT NULL, 
	reservation_id INTEGER DEFAULT '0' NOT NULL, 
	flags VARCHAR(255) DEFAULT '' NOT NULL, 
	tres TEXT NOT NULL, 
	node_list TEXT NOT NULL, 
	users TEXT NOT NULL, 
	accounts TEXT NOT NULL, 
	PRIMARY KEY (cluster_id, name, start_us), 
	CHECK (length("name") <= 255), 
	CHECK (length("flags") <= 255)
);
INSERT INTO "reservations" VALUES(101,'name ''n'' 101',1790101002000000,1790101003000000,101004,'flags ''n'' 101','tres ''n'' 101','node_list ''n'' 101','users ''n'' 101','accounts ''n'' 101');
INSERT INTO "reservations" VALUES(102,'name ''n'' 102',1790102002000000,1790102003000000,102004,'flags ''n'' 102','tres ''n'' 102','node_list ''n'' 102','users ''n'' 102','accounts ''n'' 102');
CREATE TABLE resources (
	id INTEGER NOT NULL, 
	name VARCHAR(128) DEFAULT '' NOT NULL, 
	server VARCHAR(128) DEFAULT '' NOT NULL, 
	description VARCHAR(255) DEFAULT '' NOT NULL, 
	server_type VARCHAR(255) DEFAULT '' NOT NULL, 
	flags VARCHAR(255) DEFAULT '' NOT NULL, 
	count INTEGER DEFAULT '0' NOT NULL, 
	last_consumed INTEGER DEFAULT '0' NOT NULL, 
	created_us INTEGER DEFAULT '0' NOT NULL, 
	modified_us INTEGER DEFAULT '0' NOT NULL, 
	version INTEGER DEFAULT '0' NOT NULL, 
	is_deleted INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name, server), 
	CHECK (length("name") <= 128), 
	CHECK (length("server") <= 128), 
	CHECK (length("description") <= 255), 
	CHECK (length("server_type") <= 255), 
	CHECK (length("flags") <= 255)
);
INSERT INTO "resources" VALUES(101,'name ''n'' 101','server ''n'' 101','description ''n'' 101','server_type ''n'' 101','flags ''n'' 101',101006,101007,1790101008000000,1790101009000000,101010,1);
INSERT INTO "resources" VALUES(102,'name ''n'' 102','server ''n'' 102','description ''n'' 102','server_type ''n'' 102','flags ''n'' 102',102006,102007,1790102008000000,1790102009000000,102010,0);
CREATE TABLE steps (
	job_index INTEGER NOT NULL, 
	step_id INTEGER NOT NULL, 
	het_component INTEGER NOT NULL, 
	name VARCHAR(255) DEFAULT '' NOT NULL, 
	state VARCHAR(32) DEFAULT '' NOT NULL, 
	start_us INTEGER DEFAULT '0' NOT NULL, 
	end_us INTEGER DEFAULT '0' NOT NULL, 
	suspended_us INTEGER DEFAULT '0' NOT NULL, 
	exit_code INTEGER DEFAULT '-1' NOT NULL, 
	kill_uid INTEGER DEFAULT '-1' NOT NULL, 
	node_list TEXT NOT NULL, 
	nodes INTEGER DEFAULT '0' NOT NULL, 
	tasks INTEGER DEFAULT '0' NOT NULL, 
	cpus INTEGER DEFAULT '0' NOT NULL, 
	distribution VARCHAR(64) DEFAULT '' NOT NULL, 
	time_limit_min INTEGER DEFAULT '0' NOT NULL, 
	user_cpu_us INTEGER DEFAULT '0' NOT NULL, 
	system_cpu_us INTEGER DEFAULT '0' NOT NULL, 
	cpu_frequency_khz INTEGER DEFAULT '0' NOT NULL, 
	energy_j INTEGER DEFAULT '-1' NOT NULL, 
	frequency_min VARCHAR(32) DEFAULT '' NOT NULL, 
	frequency_max VARCHAR(32) DEFAULT '' NOT NULL, 
	frequency_governor VARCHAR(32) DEFAULT '' NOT NULL, 
	container TEXT NOT NULL, 
	submit_line TEXT NOT NULL, 
	std_in TEXT NOT NULL, 
	std_out TEXT NOT NULL, 
	std_err TEXT NOT NULL, 
	tres_allocated TEXT NOT NULL, 
	tres_usage_in_ave TEXT NOT NULL, 
	tres_usage_in_max TEXT NOT NULL, 
	tres_usage_in_max_node TEXT NOT NULL, 
	tres_usage_in_max_task TEXT NOT NULL, 
	tres_usage_in_min TEXT NOT NULL, 
	tres_usage_in_min_node TEXT NOT NULL, 
	tres_usage_in_min_task TEXT NOT NULL, 
	tres_usage_in_tot TEXT NOT NULL, 
	tres_usage_out_ave TEXT NOT NULL, 
	tres_usage_out_max TEXT NOT NULL, 
	tres_usage_out_max_node TEXT NOT NULL, 
	tres_usage_out_max_task TEXT NOT NULL, 
	tres_usage_out_min TEXT NOT NULL, 
	tres_usage_out_min_node TEXT NOT NULL, 
	tres_usage_out_min_task TEXT NOT NULL, 
	tres_usage_out_tot TEXT NOT NULL, 
	PRIMARY KEY (job_index, step_id, het_component), 
	CHECK (length("name") <= 255), 
	CHECK (length("state") <= 32), 
	CHECK (length("distribution") <= 64), 
	CHECK (length("frequency_min") <= 32), 
	CHECK (length("frequency_max") <= 32), 
	CHECK (length("frequency_governor") <= 32)
);
INSERT INTO "steps" VALUES(101,101,101,'name ''n'' 101','state ''n'' 101',1790101005000000,1790101006000000,60000000,101008,101009,'node_list ''n'' 101',101011,101012,101013,'distribution ''n'' 101',101015,1790101016000000,1790101017000000,101018,101019,'frequency_min ''n'' 101','frequency_max ''n'' 101','frequency_governor ''n'' 101','container ''n'' 101','submit_line ''n'' 101','std_in ''n'' 101','std_out ''n'' 101','std_err ''n'' 101','tres_allocated ''n'' 101','tres_usage_in_ave ''n'' 101','tres_usage_in_max ''n'' 101','tres_usage_in_max_node ''n'' 101','tres_usage_in_max_task ''n'' 101','tres_usage_in_min ''n'' 101','tres_usage_in_min_node ''n'' 101','tres_usage_in_min_task ''n'' 101','tres_usage_in_tot ''n'' 101','tres_usage_out_ave ''n'' 101','tres_usage_out_max ''n'' 101','tres_usage_out_max_node ''n'' 101','tres_usage_out_max_task ''n'' 101','tres_usage_out_min ''n'' 101','tres_usage_out_min_node ''n'' 101','tres_usage_out_min_task ''n'' 101','tres_usage_out_tot ''n'' 101');
INSERT INTO "steps" VALUES(102,102,102,'name ''n'' 102','state ''n'' 102',1790102005000000,1790102006000000,60000000,102008,102009,'node_list ''n'' 102',102011,102012,102013,'distribution ''n'' 102',102015,1790102016000000,1790102017000000,102018,102019,'frequency_min ''n'' 102','frequency_max ''n'' 102','frequency_governor ''n'' 102','container ''n'' 102','submit_line ''n'' 102','std_in ''n'' 102','std_out ''n'' 102','std_err ''n'' 102','tres_allocated ''n'' 102','tres_usage_in_ave ''n'' 102','tres_usage_in_max ''n'' 102','tres_usage_in_max_node ''n'' 102','tres_usage_in_max_task ''n'' 102','tres_usage_in_min ''n'' 102','tres_usage_in_min_node ''n'' 102','tres_usage_in_min_task ''n'' 102','tres_usage_in_tot ''n'' 102','tres_usage_out_ave ''n'' 102','tres_usage_out_max ''n'' 102','tres_usage_out_max_node ''n'' 102','tres_usage_out_max_task ''n'' 102','tres_usage_out_min ''n'' 102','tres_usage_out_min_node ''n'' 102','tres_usage_out_min_task ''n'' 102','tres_usage_out_tot ''n'' 102');
CREATE TABLE store (
	name VARCHAR(64) DEFAULT '' NOT NULL, 
	value VARCHAR(255) DEFAULT '' NOT NULL, 
	PRIMARY KEY (name), 
	CHECK (length("name") <= 64), 
	CHECK (length("value") <= 255)
);
INSERT INTO "store" VALUES('store_id','424abefd39274209a0566b57183f7e87');
INSERT INTO "store" VALUES('version','1');
INSERT INTO "store" VALUES('next_job_index','1');
INSERT INTO "store" VALUES('schema_version','16');
INSERT INTO "store" VALUES('name ''n'' 101','value ''n'' 101');
INSERT INTO "store" VALUES('name ''n'' 102','value ''n'' 102');
CREATE TABLE suspensions (
	job_index INTEGER NOT NULL, 
	start_us INTEGER NOT NULL, 
	end_us INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (job_index, start_us)
);
INSERT INTO "suspensions" VALUES(101,1790101001000000,1790101002000000);
INSERT INTO "suspensions" VALUES(102,1790102001000000,1790102002000000);
CREATE TABLE texts (
	hash VARCHAR(64) DEFAULT '' NOT NULL, 
	text TEXT NOT NULL, 
	last_used_us INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (hash), 
	CHECK (length("hash") <= 64)
);
INSERT INTO "texts" VALUES('hash ''n'' 101','text ''n'' 101',1790101002000000);
INSERT INTO "texts" VALUES('hash ''n'' 102','text ''n'' 102',1790102002000000);
CREATE TABLE tres (
	id INTEGER NOT NULL, 
	type VARCHAR(64) DEFAULT '' NOT NULL, 
	name VARCHAR(128) DEFAULT '' NOT NULL, 
	version INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_tres UNIQUE (type, name), 
	CHECK (length("type") <= 64), 
	CHECK (length("name") <= 128)
);
INSERT INTO "tres" VALUES(1,'cpu','',1);
INSERT INTO "tres" VALUES(2,'mem','',1);
INSERT INTO "tres" VALUES(3,'energy','',1);
INSERT INTO "tres" VALUES(4,'node','',1);
INSERT INTO "tres" VALUES(5,'billing','',1);
INSERT INTO "tres" VALUES(6,'fs','disk',1);
INSERT INTO "tres" VALUES(7,'vmem','',1);
INSERT INTO "tres" VALUES(8,'pages','',1);
INSERT INTO "tres" VALUES(101,'type ''n'' 101','name ''n'' 101',101003);
INSERT INTO "tres" VALUES(102,'type ''n'' 102','name ''n'' 102',102003);
CREATE TABLE txn (
	id INTEGER NOT NULL, 
	time_us INTEGER DEFAULT '0' NOT NULL, 
	action VARCHAR(64) DEFAULT '' NOT NULL, 
	actor VARCHAR(128) DEFAULT '' NOT NULL, 
	cluster VARCHAR(64) DEFAULT '' NOT NULL, 
	object TEXT NOT NULL, 
	info TEXT NOT NULL, 
	PRIMARY KEY (id), 
	CHECK (length("action") <= 64), 
	CHECK (length("actor") <= 128), 
	CHECK (length("cluster") <= 64)
);
INSERT INTO "txn" VALUES(101,1790101001000000,'action ''n'' 101','actor ''n'' 101','cluster ''n'' 101','object ''n'' 101','info ''n'' 101');
INSERT INTO "txn" VALUES(102,1790102001000000,'action ''n'' 102','actor ''n'' 102','cluster ''n'' 102','object ''n'' 102','info ''n'' 102');
CREATE TABLE users (
	name VARCHAR(128) DEFAULT '' NOT NULL, 
	admin_level INTEGER DEFAULT '1' NOT NULL, 
	default_wckey VARCHAR(255) DEFAULT '' NOT NULL, 
	created_us INTEGER DEFAULT '0' NOT NULL, 
	modified_us INTEGER DEFAULT '0' NOT NULL, 
	version INTEGER DEFAULT '0' NOT NULL, 
	is_deleted INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (name), 
	CHECK (length("name") <= 128), 
	CHECK (length("default_wckey") <= 255)
);
INSERT INTO "users" VALUES('root',3,'',0,0,1,0);
INSERT INTO "users" VALUES('name ''n'' 101',101001,'default_wckey ''n'' 101',1790101003000000,1790101004000000,101005,1);
INSERT INTO "users" VALUES('name ''n'' 102',102001,'default_wckey ''n'' 102',1790102003000000,1790102004000000,102005,0);
CREATE TABLE wckey_usage_day (
	cluster_id INTEGER NOT NULL, 
	start_us INTEGER NOT NULL, 
	wckey VARCHAR(128) DEFAULT '' NOT NULL, 
	user VARCHAR(128) DEFAULT '' NOT NULL, 
	tres_id INTEGER NOT NULL, 
	allocated_s INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (cluster_id, start_us, wckey, user, tres_id), 
	CHECK (length("wckey") <= 128), 
	CHECK (length("user") <= 128)
);
INSERT INTO "wckey_usage_day" VALUES(101,1790101001000000,'wckey ''n'' 101','user ''n'' 101',101,101005);
INSERT INTO "wckey_usage_day" VALUES(102,1790102001000000,'wckey ''n'' 102','user ''n'' 102',102,102005);
CREATE TABLE wckey_usage_hour (
	cluster_id INTEGER NOT NULL, 
	start_us INTEGER NOT NULL, 
	wckey VARCHAR(128) DEFAULT '' NOT NULL, 
	user VARCHAR(128) DEFAULT '' NOT NULL, 
	tres_id INTEGER NOT NULL, 
	allocated_s INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (cluster_id, start_us, wckey, user, tres_id), 
	CHECK (length("wckey") <= 128), 
	CHECK (length("user") <= 128)
);
INSERT INTO "wckey_usage_hour" VALUES(101,1790101001000000,'wckey ''n'' 101','user ''n'' 101',101,101005);
INSERT INTO "wckey_usage_hour" VALUES(102,1790102001000000,'wckey ''n'' 102','user ''n'' 102',102,102005);
CREATE TABLE wckey_usage_month (
	cluster_id INTEGER NOT NULL, 
	start_us INTEGER NOT NULL, 
	wckey VARCHAR(128) DEFAULT '' NOT NULL, 
	user VARCHAR(128) DEFAULT '' NOT NULL, 
	tres_id INTEGER NOT NULL, 
	allocated_s INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (cluster_id, start_us, wckey, user, tres_id), 
	CHECK (length("wckey") <= 128), 
	CHECK (length("user") <= 128)
);
INSERT INTO "wckey_usage_month" VALUES(101,1790101001000000,'wckey ''n'' 101','user ''n'' 101',101,101005);
INSERT INTO "wckey_usage_month" VALUES(102,1790102001000000,'wckey ''n'' 102','user ''n'' 102',102,102005);
CREATE TABLE wckeys (
	id INTEGER NOT NULL, 
	cluster_id INTEGER NOT NULL, 
	name VARCHAR(128) DEFAULT '' NOT NULL, 
	user VARCHAR(128) DEFAULT '' NOT NULL, 
	is_default INTEGER DEFAULT '0' NOT NULL, 
	created_us INTEGER DEFAULT '0' NOT NULL, 
	modified_us INTEGER DEFAULT '0' NOT NULL, 
	version INTEGER DEFAULT '0' NOT NULL, 
	is_deleted INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_wckey UNIQUE (cluster_id, name, user), 
	CHECK (length("name") <= 128), 
	CHECK (length("user") <= 128)
);
INSERT INTO "wckeys" VALUES(101,101001,'name ''n'' 101','user ''n'' 101',1,1790101005000000,1790101006000000,101007,1);
INSERT INTO "wckeys" VALUES(102,102001,'name ''n'' 102','user ''n'' 102',0,1790102005000000,1790102006000000,102007,0);
CREATE INDEX ix_associations_version ON associations (version);
CREATE INDEX ix_txn_time ON txn (time_us);
CREATE INDEX ix_jobs_array ON jobs (cluster_id, array_job_id);
CREATE INDEX ix_jobs_sluid ON jobs (cluster_id, sluid);
CREATE INDEX ix_jobs_usage ON jobs (cluster_id, eligible_us, end_us, start_us, association_id, cpus_requested, qos, user, wckey, summed_tres);
CREATE INDEX ix_jobs_script ON jobs (script_hash);
CREATE INDEX ix_jobs_het ON jobs (cluster_id, het_job_id);
CREATE INDEX ix_jobs_job ON jobs (cluster_id, job_id, submit_us);
CREATE INDEX ix_jobs_environment ON jobs (environment_hash);
CREATE INDEX ix_jobs_window ON jobs (cluster_id, end_us, eligible_us, attempt);
CREATE INDEX ix_jobs_uid ON jobs (cluster_id, uid, end_us);
CREATE INDEX ix_steps_end ON steps (end_us);
CREATE INDEX ix_node_events_start ON node_events (cluster_id, start_us);
CREATE INDEX ix_node_events_end ON node_events (cluster_id, end_us);
CREATE INDEX ix_node_instances_end ON node_instances (cluster_id, end_us);
CREATE INDEX ix_node_instances_start ON node_instances (cluster_id, start_us);
CREATE INDEX ix_reservations_start ON reservations (cluster_id, start_us);
CREATE INDEX ix_reservations_end ON reservations (cluster_id, end_us);
CREATE INDEX ix_suspensions_end ON suspensions (end_us);
CREATE INDEX ix_jobs_span_class ON jobs (cluster_id, span_class, end_us, eligible_us, attempt);
COMMIT;
