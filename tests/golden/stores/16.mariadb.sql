/*M!999999\- enable the sandbox mode */ 
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `accounts` (
  `name` varchar(128) NOT NULL DEFAULT '',
  `description` varchar(255) NOT NULL DEFAULT '',
  `organization` varchar(255) NOT NULL DEFAULT '',
  `flags` varchar(255) NOT NULL DEFAULT '',
  `created_us` bigint(20) NOT NULL DEFAULT 0,
  `modified_us` bigint(20) NOT NULL DEFAULT 0,
  `version` bigint(20) NOT NULL DEFAULT 0,
  `is_deleted` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `accounts` VALUES ('name \'n\' 101','description \'n\' 101','organization \'n\' 101','flags \'n\' 101',1790101004000000,1790101005000000,101006,1);
INSERT INTO `accounts` VALUES ('name \'n\' 102','description \'n\' 102','organization \'n\' 102','flags \'n\' 102',1790102004000000,1790102005000000,102006,0);
INSERT INTO `accounts` VALUES ('root','default root account','root','',0,0,1,0);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `association_usage_day` (
  `cluster_id` int(11) NOT NULL,
  `start_us` bigint(20) NOT NULL,
  `association_id` int(11) NOT NULL,
  `qos_id` int(11) NOT NULL,
  `tres_id` int(11) NOT NULL,
  `allocated_s` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cluster_id`,`start_us`,`association_id`,`qos_id`,`tres_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `association_usage_day` VALUES (101,1790101001000000,101,101,101,101005);
INSERT INTO `association_usage_day` VALUES (102,1790102001000000,102,102,102,102005);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `association_usage_hour` (
  `cluster_id` int(11) NOT NULL,
  `start_us` bigint(20) NOT NULL,
  `association_id` int(11) NOT NULL,
  `qos_id` int(11) NOT NULL,
  `tres_id` int(11) NOT NULL,
  `allocated_s` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cluster_id`,`start_us`,`association_id`,`qos_id`,`tres_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `association_usage_hour` VALUES (101,1790101001000000,101,101,101,101005);
INSERT INTO `association_usage_hour` VALUES (102,1790102001000000,102,102,102,102005);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `association_usage_month` (
  `cluster_id` int(11) NOT NULL,
  `start_us` bigint(20) NOT NULL,
  `association_id` int(11) NOT NULL,
  `qos_id` int(11) NOT NULL,
  `tres_id` int(11) NOT NULL,
  `allocated_s` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cluster_id`,`start_us`,`association_id`,`qos_id`,`tres_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `association_usage_month` VALUES (101,1790101001000000,101,101,101,101005);
INSERT INTO `association_usage_month` VALUES (102,1790102001000000,102,102,102,102005);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `associations` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `cluster_id` int(11) NOT NULL,
  `account` varchar(128) NOT NULL DEFAULT '',
  `user` varchar(128) NOT NULL DEFAULT '',
  `partition` varchar(128) NOT NULL DEFAULT '',
  `parent_id` bigint(20) NOT NULL DEFAULT 0,
  `lineage` varchar(1024) NOT NULL DEFAULT '',
  `is_default` bigint(20) NOT NULL DEFAULT 0,
  `shares` bigint(20) NOT NULL DEFAULT 1,
  `default_qos_id` bigint(20) NOT NULL DEFAULT 0,
  `qos` varchar(1024) NOT NULL DEFAULT '',
  `delta_qos` varchar(1024) NOT NULL DEFAULT '',
  `limits` longtext NOT NULL,
  `comment` longtext NOT NULL,
  `usage_reset_us` bigint(20) NOT NULL DEFAULT 0,
  `created_us` bigint(20) NOT NULL DEFAULT 0,
  `modified_us` bigint(20) NOT NULL DEFAULT 0,
  `version` bigint(20) NOT NULL DEFAULT 0,
  `is_deleted` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_association` (`cluster_id`,`account`,`user`,`partition`),
  KEY `ix_associations_version` (`version`)
) ENGINE=InnoDB AUTO_INCREMENT=103 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `associations` VALUES (101,101001,'account \'n\' 101','user \'n\' 101','partition \'n\' 101',101005,'lineage \'n\' 101',1,101008,101009,'qos \'n\' 101','delta_qos \'n\' 101','{\"GrpJobs\":101}','comment \'n\' 101',1790101014000000,1790101015000000,1790101016000000,101017,1);
INSERT INTO `associations` VALUES (102,102001,'account \'n\' 102','user \'n\' 102','partition \'n\' 102',102005,'lineage \'n\' 102',0,102008,102009,'qos \'n\' 102','delta_qos \'n\' 102','{\"GrpJobs\":102}','comment \'n\' 102',1790102014000000,1790102015000000,1790102016000000,102017,0);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `cluster_nodes` (
  `cluster_id` int(11) NOT NULL,
  `node_id` int(11) NOT NULL,
  `name` varchar(128) NOT NULL DEFAULT '',
  `is_gone` bigint(20) NOT NULL DEFAULT 0,
  `tres` longtext NOT NULL,
  `threads` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cluster_id`,`node_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `cluster_nodes` VALUES (101,101,'name \'n\' 101',1,'tres \'n\' 101',101005);
INSERT INTO `cluster_nodes` VALUES (102,102,'name \'n\' 102',0,'tres \'n\' 102',102005);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `cluster_partitions` (
  `cluster_id` int(11) NOT NULL,
  `name` varchar(128) NOT NULL DEFAULT '',
  `billing_weights` longtext NOT NULL,
  `def_mem_per_cpu_mib` bigint(20) NOT NULL DEFAULT 0,
  `def_mem_per_node_mib` bigint(20) NOT NULL DEFAULT 0,
  `def_mem_per_gpu_mib` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cluster_id`,`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `cluster_partitions` VALUES (101,'name \'n\' 101','billing_weights \'n\' 101',101003,101004,101005);
INSERT INTO `cluster_partitions` VALUES (102,'name \'n\' 102','billing_weights \'n\' 102',102003,102004,102005);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `cluster_resources` (
  `resource_id` int(11) NOT NULL,
  `cluster_id` int(11) NOT NULL,
  `allowed` bigint(20) NOT NULL DEFAULT 0,
  `created_us` bigint(20) NOT NULL DEFAULT 0,
  `modified_us` bigint(20) NOT NULL DEFAULT 0,
  `version` bigint(20) NOT NULL DEFAULT 0,
  `is_deleted` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`resource_id`,`cluster_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `cluster_resources` VALUES (101,101,101002,1790101003000000,1790101004000000,101005,1);
INSERT INTO `cluster_resources` VALUES (102,102,102002,1790102003000000,1790102004000000,102005,0);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `cluster_usage_day` (
  `cluster_id` int(11) NOT NULL,
  `start_us` bigint(20) NOT NULL,
  `tres_id` int(11) NOT NULL,
  `count` bigint(20) NOT NULL DEFAULT 0,
  `allocated_s` bigint(20) NOT NULL DEFAULT 0,
  `down_s` bigint(20) NOT NULL DEFAULT 0,
  `planned_down_s` bigint(20) NOT NULL DEFAULT 0,
  `idle_s` bigint(20) NOT NULL DEFAULT 0,
  `planned_s` bigint(20) NOT NULL DEFAULT 0,
  `over_s` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cluster_id`,`start_us`,`tres_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `cluster_usage_day` VALUES (101,1790101001000000,101,101003,101004,101005,101006,101007,101008,101009);
INSERT INTO `cluster_usage_day` VALUES (102,1790102001000000,102,102003,102004,102005,102006,102007,102008,102009);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `cluster_usage_hour` (
  `cluster_id` int(11) NOT NULL,
  `start_us` bigint(20) NOT NULL,
  `tres_id` int(11) NOT NULL,
  `count` bigint(20) NOT NULL DEFAULT 0,
  `allocated_s` bigint(20) NOT NULL DEFAULT 0,
  `down_s` bigint(20) NOT NULL DEFAULT 0,
  `planned_down_s` bigint(20) NOT NULL DEFAULT 0,
  `idle_s` bigint(20) NOT NULL DEFAULT 0,
  `planned_s` bigint(20) NOT NULL DEFAULT 0,
  `over_s` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cluster_id`,`start_us`,`tres_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `cluster_usage_hour` VALUES (101,1790101001000000,101,101003,101004,101005,101006,101007,101008,101009);
INSERT INTO `cluster_usage_hour` VALUES (102,1790102001000000,102,102003,102004,102005,102006,102007,102008,102009);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `cluster_usage_month` (
  `cluster_id` int(11) NOT NULL,
  `start_us` bigint(20) NOT NULL,
  `tres_id` int(11) NOT NULL,
  `count` bigint(20) NOT NULL DEFAULT 0,
  `allocated_s` bigint(20) NOT NULL DEFAULT 0,
  `down_s` bigint(20) NOT NULL DEFAULT 0,
  `planned_down_s` bigint(20) NOT NULL DEFAULT 0,
  `idle_s` bigint(20) NOT NULL DEFAULT 0,
  `planned_s` bigint(20) NOT NULL DEFAULT 0,
  `over_s` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cluster_id`,`start_us`,`tres_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `cluster_usage_month` VALUES (101,1790101001000000,101,101003,101004,101005,101006,101007,101008,101009);
INSERT INTO `cluster_usage_month` VALUES (102,1790102001000000,102,102003,102004,102005,102006,102007,102008,102009);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `clusters` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `name` varchar(64) NOT NULL DEFAULT '',
  `control_host` varchar(255) NOT NULL DEFAULT '',
  `control_port` bigint(20) NOT NULL DEFAULT 0,
  `rpc_version` bigint(20) NOT NULL DEFAULT 0,
  `classification` varchar(64) NOT NULL DEFAULT '',
  `flags` varchar(255) NOT NULL DEFAULT '',
  `store_flags` varchar(255) NOT NULL DEFAULT '',
  `created_us` bigint(20) NOT NULL DEFAULT 0,
  `modified_us` bigint(20) NOT NULL DEFAULT 0,
  `version` bigint(20) NOT NULL DEFAULT 0,
  `is_deleted` bigint(20) NOT NULL DEFAULT 0,
  `federation` varchar(255) NOT NULL DEFAULT '',
  `federation_id` bigint(20) NOT NULL DEFAULT 0,
  `federation_state` bigint(20) NOT NULL DEFAULT 0,
  `features` varchar(255) NOT NULL DEFAULT '',
  PRIMARY KEY (`id`),
  UNIQUE KEY `name` (`name`)
) ENGINE=InnoDB AUTO_INCREMENT=103 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `clusters` VALUES (101,'name \'n\' 101','control_host \'n\' 101',101003,101004,'classification \'n\' 101','flags \'n\' 101','store_flags \'n\' 101',1790101008000000,1790101009000000,101010,1,'federation \'n\' 101',101013,101014,'features \'n\' 101');
INSERT INTO `clusters` VALUES (102,'name \'n\' 102','control_host \'n\' 102',102003,102004,'classification \'n\' 102','flags \'n\' 102','store_flags \'n\' 102',1790102008000000,1790102009000000,102010,0,'federation \'n\' 102',102013,102014,'features \'n\' 102');
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `coordinators` (
  `account` varchar(128) NOT NULL DEFAULT '',
  `user` varchar(128) NOT NULL DEFAULT '',
  PRIMARY KEY (`account`,`user`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `coordinators` VALUES ('account \'n\' 101','user \'n\' 101');
INSERT INTO `coordinators` VALUES ('account \'n\' 102','user \'n\' 102');
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `cursors` (
  `cluster_id` int(11) NOT NULL,
  `journal_id` varchar(64) NOT NULL DEFAULT '',
  `epoch` bigint(20) NOT NULL DEFAULT 0,
  `sequence` bigint(20) NOT NULL DEFAULT 0,
  `updated_us` bigint(20) NOT NULL DEFAULT 0,
  `records` bigint(20) NOT NULL DEFAULT 0,
  `checksum` varchar(16) NOT NULL DEFAULT '',
  PRIMARY KEY (`cluster_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `cursors` VALUES (101,'journal_id \'n\' 101',101002,101003,1790101004000000,101005,'checksum \'n\' 101');
INSERT INTO `cursors` VALUES (102,'journal_id \'n\' 102',102002,102003,1790102004000000,102005,'checksum \'n\' 102');
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `federations` (
  `name` varchar(128) NOT NULL DEFAULT '',
  `flags` varchar(255) NOT NULL DEFAULT '',
  `created_us` bigint(20) NOT NULL DEFAULT 0,
  `modified_us` bigint(20) NOT NULL DEFAULT 0,
  `version` bigint(20) NOT NULL DEFAULT 0,
  `is_deleted` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `federations` VALUES ('name \'n\' 101','flags \'n\' 101',1790101002000000,1790101003000000,101004,1);
INSERT INTO `federations` VALUES ('name \'n\' 102','flags \'n\' 102',1790102002000000,1790102003000000,102004,0);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `jobs` (
  `job_index` bigint(20) NOT NULL,
  `cluster_id` int(11) NOT NULL,
  `job_id` bigint(20) NOT NULL DEFAULT 0,
  `submit_us` bigint(20) NOT NULL DEFAULT 0,
  `attempt` bigint(20) NOT NULL DEFAULT 0,
  `is_last` bigint(20) NOT NULL DEFAULT 1,
  `sluid` bigint(20) NOT NULL DEFAULT 0,
  `original_sluid` bigint(20) NOT NULL DEFAULT 0,
  `array_job_id` bigint(20) NOT NULL DEFAULT 0,
  `array_task_id` bigint(20) NOT NULL DEFAULT -1,
  `array_tasks` longtext NOT NULL,
  `array_max_tasks` bigint(20) NOT NULL DEFAULT 0,
  `het_job_id` bigint(20) NOT NULL DEFAULT 0,
  `het_job_offset` bigint(20) NOT NULL DEFAULT -1,
  `association_id` bigint(20) NOT NULL DEFAULT 0,
  `account` varchar(128) NOT NULL DEFAULT '',
  `uid` bigint(20) NOT NULL DEFAULT 0,
  `gid` bigint(20) NOT NULL DEFAULT 0,
  `user` varchar(128) NOT NULL DEFAULT '',
  `group` varchar(128) NOT NULL DEFAULT '',
  `partition` varchar(255) NOT NULL DEFAULT '',
  `qos` varchar(128) NOT NULL DEFAULT '',
  `qos_requested` varchar(255) NOT NULL DEFAULT '',
  `wckey` varchar(128) NOT NULL DEFAULT '',
  `name` varchar(255) NOT NULL DEFAULT '',
  `priority` bigint(20) NOT NULL DEFAULT 0,
  `state` varchar(32) NOT NULL DEFAULT '',
  `reason` varchar(128) NOT NULL DEFAULT '',
  `eligible_us` bigint(20) NOT NULL DEFAULT 0,
  `start_us` bigint(20) NOT NULL DEFAULT 0,
  `end_us` bigint(20) NOT NULL DEFAULT 0,
  `suspended_us` bigint(20) NOT NULL DEFAULT 0,
  `suspend_start_us` bigint(20) NOT NULL DEFAULT 0,
  `time_limit_min` bigint(20) NOT NULL DEFAULT 0,
  `exit_code` bigint(20) NOT NULL DEFAULT 0,
  `derived_exit_code` bigint(20) NOT NULL DEFAULT 0,
  `kill_uid` bigint(20) NOT NULL DEFAULT -1,
  `cpus_requested` bigint(20) NOT NULL DEFAULT 0,
  `cpus_allocated` bigint(20) NOT NULL DEFAULT 0,
  `nodes_requested` bigint(20) NOT NULL DEFAULT 0,
  `nodes_allocated` bigint(20) NOT NULL DEFAULT 0,
  `node_list` longtext NOT NULL,
  `mem_mib` bigint(20) NOT NULL DEFAULT 0,
  `mem_is_per_cpu` bigint(20) NOT NULL DEFAULT 0,
  `tres_requested` longtext NOT NULL,
  `tres_allocated` longtext NOT NULL,
  `gres_used` longtext NOT NULL,
  `constraints` longtext NOT NULL,
  `container` longtext NOT NULL,
  `licenses` longtext NOT NULL,
  `reservation` varchar(255) NOT NULL DEFAULT '',
  `reservation_requested` varchar(255) NOT NULL DEFAULT '',
  `reservation_id` bigint(20) NOT NULL DEFAULT 0,
  `work_dir` longtext NOT NULL,
  `std_in` longtext NOT NULL,
  `std_out` longtext NOT NULL,
  `std_err` longtext NOT NULL,
  `submit_line` longtext NOT NULL,
  `comment` longtext NOT NULL,
  `admin_comment` longtext NOT NULL,
  `system_comment` longtext NOT NULL,
  `extra` longtext NOT NULL,
  `flags` varchar(255) NOT NULL DEFAULT '',
  `failed_node` varchar(255) NOT NULL DEFAULT '',
  `mcs_label` varchar(255) NOT NULL DEFAULT '',
  `exclusive` varchar(16) NOT NULL DEFAULT '',
  `oversubscribe` varchar(16) NOT NULL DEFAULT '',
  `segment_size` bigint(20) NOT NULL DEFAULT 0,
  `requeue_count` bigint(20) NOT NULL DEFAULT 0,
  `script_hash` varchar(64) NOT NULL DEFAULT '',
  `environment_hash` varchar(64) NOT NULL DEFAULT '',
  `modified_us` bigint(20) NOT NULL DEFAULT 0,
  `summed_tres` varchar(255) NOT NULL DEFAULT '',
  `span_class` int(11) GENERATED ALWAYS AS (case when `end_us` = 0 then 0 when `end_us` - case when `attempt` > 0 and `submit_us` < `eligible_us` then `submit_us` else `eligible_us` end <= 3600000000 then 1 when `end_us` - case when `attempt` > 0 and `submit_us` < `eligible_us` then `submit_us` else `eligible_us` end <= 14400000000 then 2 when `end_us` - case when `attempt` > 0 and `submit_us` < `eligible_us` then `submit_us` else `eligible_us` end <= 57600000000 then 3 when `end_us` - case when `attempt` > 0 and `submit_us` < `eligible_us` then `submit_us` else `eligible_us` end <= 230400000000 then 4 when `end_us` - case when `attempt` > 0 and `submit_us` < `eligible_us` then `submit_us` else `eligible_us` end <= 921600000000 then 5 when `end_us` - case when `attempt` > 0 and `submit_us` < `eligible_us` then `submit_us` else `eligible_us` end <= 3686400000000 then 6 else 7 end) VIRTUAL,
  PRIMARY KEY (`job_index`),
  KEY `ix_jobs_array` (`cluster_id`,`array_job_id`),
  KEY `ix_jobs_sluid` (`cluster_id`,`sluid`),
  KEY `ix_jobs_usage` (`cluster_id`,`eligible_us`,`end_us`,`start_us`,`association_id`,`cpus_requested`,`qos`,`user`,`wckey`,`summed_tres`),
  KEY `ix_jobs_script` (`script_hash`),
  KEY `ix_jobs_het` (`cluster_id`,`het_job_id`),
  KEY `ix_jobs_job` (`cluster_id`,`job_id`,`submit_us`),
  KEY `ix_jobs_environment` (`environment_hash`),
  KEY `ix_jobs_window` (`cluster_id`,`end_us`,`eligible_us`,`attempt`),
  KEY `ix_jobs_uid` (`cluster_id`,`uid`,`end_us`),
  KEY `ix_jobs_span_class` (`cluster_id`,`span_class`,`end_us`,`eligible_us`,`attempt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `jobs` VALUES (101,101001,101002,1790101003000000,101004,1,101006,101007,101008,101009,'array_tasks \'n\' 101',101011,101012,101013,101014,'account \'n\' 101',101016,101017,'user \'n\' 101','group \'n\' 101','partition \'n\' 101','qos \'n\' 101','qos_requested \'n\' 101','wckey \'n\' 101','name \'n\' 101',101025,'state \'n\' 101','reason \'n\' 101',1790101028000000,1790101029000000,1790101030000000,60000000,1790101032000000,101033,101034,101035,101036,101037,101038,101039,101040,'node_list \'n\' 101',101042,101043,'tres_requested \'n\' 101','tres_allocated \'n\' 101','gres_used \'n\' 101','constraints \'n\' 101','container \'n\' 101','licenses \'n\' 101','reservation \'n\' 101','reservation_requested \'n\' 101',101052,'work_dir \'n\' 101','std_in \'n\' 101','std_out \'n\' 101','std_err \'n\' 101','submit_line \'n\' 101','comment \'n\' 101','admin_comment \'n\' 101','system_comment \'n\' 101','extra \'n\' 101','flags \'n\' 101','failed_node \'n\' 101','mcs_label \'n\' 101','exclusive \'n\' 10','oversubscribe \'n',101067,101068,'script_hash \'n\' 101','environment_hash \'n\' 101',1790101071000000,'summed_tres \'n\' 101',1);
INSERT INTO `jobs` VALUES (102,102001,102002,1790102003000000,102004,0,102006,102007,102008,102009,'array_tasks \'n\' 102',102011,102012,102013,102014,'account \'n\' 102',102016,102017,'user \'n\' 102','group \'n\' 102','partition \'n\' 102','qos \'n\' 102','qos_requested \'n\' 102','wckey \'n\' 102','name \'n\' 102',102025,'state \'n\' 102','reason \'n\' 102',1790102028000000,1790102029000000,1790102030000000,60000000,1790102032000000,102033,102034,102035,102036,102037,102038,102039,102040,'node_list \'n\' 102',102042,102043,'tres_requested \'n\' 102','tres_allocated \'n\' 102','gres_used \'n\' 102','constraints \'n\' 102','container \'n\' 102','licenses \'n\' 102','reservation \'n\' 102','reservation_requested \'n\' 102',102052,'work_dir \'n\' 102','std_in \'n\' 102','std_out \'n\' 102','std_err \'n\' 102','submit_line \'n\' 102','comment \'n\' 102','admin_comment \'n\' 102','system_comment \'n\' 102','extra \'n\' 102','flags \'n\' 102','failed_node \'n\' 102','mcs_label \'n\' 102','exclusive \'n\' 10','oversubscribe \'n',102067,102068,'script_hash \'n\' 102','environment_hash \'n\' 102',1790102071000000,'summed_tres \'n\' 102',1);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `last_ran` (
  `cluster_id` int(11) NOT NULL,
  `hour_us` bigint(20) NOT NULL DEFAULT 0,
  `day_us` bigint(20) NOT NULL DEFAULT 0,
  `month_us` bigint(20) NOT NULL DEFAULT 0,
  `claimed_us` bigint(20) NOT NULL DEFAULT 0,
  `changed_us` bigint(20) NOT NULL DEFAULT 0,
  `purged_us` bigint(20) NOT NULL DEFAULT 0,
  `usage_purged_us` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cluster_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `last_ran` VALUES (101,1790101001000000,1790101002000000,1790101003000000,1790101004000000,1790101005000000,1790101006000000,1790101007000000);
INSERT INTO `last_ran` VALUES (102,1790102001000000,1790102002000000,1790102003000000,1790102004000000,1790102005000000,1790102006000000,1790102007000000);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `node_events` (
  `cluster_id` int(11) NOT NULL,
  `node_name` varchar(128) NOT NULL DEFAULT '',
  `start_us` bigint(20) NOT NULL,
  `end_us` bigint(20) NOT NULL DEFAULT 0,
  `state` varchar(64) NOT NULL DEFAULT '',
  `reason` longtext NOT NULL,
  `reason_uid` bigint(20) NOT NULL DEFAULT -1,
  `tres` longtext NOT NULL,
  `cluster_nodes` longtext NOT NULL,
  PRIMARY KEY (`cluster_id`,`node_name`,`start_us`),
  KEY `ix_node_events_start` (`cluster_id`,`start_us`),
  KEY `ix_node_events_end` (`cluster_id`,`end_us`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `node_events` VALUES (101,'node_name \'n\' 101',1790101002000000,1790101003000000,'state \'n\' 101','reason \'n\' 101',101006,'tres \'n\' 101','cluster_nodes \'n\' 101');
INSERT INTO `node_events` VALUES (102,'node_name \'n\' 102',1790102002000000,1790102003000000,'state \'n\' 102','reason \'n\' 102',102006,'tres \'n\' 102','cluster_nodes \'n\' 102');
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `node_instances` (
  `cluster_id` int(11) NOT NULL,
  `node_name` varchar(128) NOT NULL DEFAULT '',
  `start_us` bigint(20) NOT NULL,
  `end_us` bigint(20) NOT NULL DEFAULT 0,
  `instance_id` varchar(255) NOT NULL DEFAULT '',
  `instance_type` varchar(255) NOT NULL DEFAULT '',
  `extra` longtext NOT NULL,
  PRIMARY KEY (`cluster_id`,`node_name`,`start_us`),
  KEY `ix_node_instances_end` (`cluster_id`,`end_us`),
  KEY `ix_node_instances_start` (`cluster_id`,`start_us`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `node_instances` VALUES (101,'node_name \'n\' 101',1790101002000000,1790101003000000,'instance_id \'n\' 101','instance_type \'n\' 101','extra \'n\' 101');
INSERT INTO `node_instances` VALUES (102,'node_name \'n\' 102',1790102002000000,1790102003000000,'instance_id \'n\' 102','instance_type \'n\' 102','extra \'n\' 102');
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `problem_rows` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `cluster_id` int(11) NOT NULL,
  `journal_id` varchar(64) NOT NULL DEFAULT '',
  `sequence` bigint(20) NOT NULL DEFAULT 0,
  `time_us` bigint(20) NOT NULL DEFAULT 0,
  `kind` varchar(64) NOT NULL DEFAULT '',
  `job_id` bigint(20) NOT NULL DEFAULT 0,
  `error` varchar(1024) NOT NULL DEFAULT '',
  `record` longtext NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=103 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `problem_rows` VALUES (101,101001,'journal_id \'n\' 101',101003,1790101004000000,'kind \'n\' 101',101006,'error \'n\' 101','record \'n\' 101');
INSERT INTO `problem_rows` VALUES (102,102001,'journal_id \'n\' 102',102003,1790102004000000,'kind \'n\' 102',102006,'error \'n\' 102','record \'n\' 102');
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `qos` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `name` varchar(128) NOT NULL DEFAULT '',
  `description` varchar(255) NOT NULL DEFAULT '',
  `flags` varchar(255) NOT NULL DEFAULT '',
  `preempt` varchar(255) NOT NULL DEFAULT '',
  `preempt_mode` varchar(64) NOT NULL DEFAULT '',
  `priority` bigint(20) NOT NULL DEFAULT 0,
  `grace_time_s` bigint(20) NOT NULL DEFAULT 0,
  `usage_reset_us` bigint(20) NOT NULL DEFAULT 0,
  `limits` longtext NOT NULL,
  `created_us` bigint(20) NOT NULL DEFAULT 0,
  `modified_us` bigint(20) NOT NULL DEFAULT 0,
  `version` bigint(20) NOT NULL DEFAULT 0,
  `is_deleted` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`id`),
  UNIQUE KEY `name` (`name`)
) ENGINE=InnoDB AUTO_INCREMENT=103 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `qos` VALUES (1,'normal','Normal QOS default','','','cluster',0,0,0,'{}',0,0,1,0);
INSERT INTO `qos` VALUES (101,'name \'n\' 101','description \'n\' 101','flags \'n\' 101','preempt \'n\' 101','preempt_mode \'n\' 101',101006,101007,1790101008000000,'{\"GrpJobs\":101}',1790101010000000,1790101011000000,101012,1);
INSERT INTO `qos` VALUES (102,'name \'n\' 102','description \'n\' 102','flags \'n\' 102','preempt \'n\' 102','preempt_mode \'n\' 102',102006,102007,1790102008000000,'{\"GrpJobs\":102}',1790102010000000,1790102011000000,102012,0);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `reservations` (
  `cluster_id` int(11) NOT NULL,
  `name` varchar(255) NOT NULL DEFAULT '',
  `start_us` bigint(20) NOT NULL,
  `end_us` bigint(20) NOT NULL DEFAULT 0,
  `reservation_id` bigint(20) NOT NULL DEFAULT 0,
  `flags` varchar(255) NOT NULL DEFAULT '',
  `tres` longtext NOT NULL,
  `node_list` longtext NOT NULL,
  `users` longtext NOT NULL,
  `accounts` longtext NOT NULL,
  PRIMARY KEY (`cluster_id`,`name`,`start_us`),
  KEY `ix_reservations_start` (`cluster_id`,`start_us`),
  KEY `ix_reservations_end` (`cluster_id`,`end_us`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `reservations` VALUES (101,'name \'n\' 101',1790101002000000,1790101003000000,101004,'flags \'n\' 101','tres \'n\' 101','node_list \'n\' 101','users \'n\' 101','accounts \'n\' 101');
INSERT INTO `reservations` VALUES (102,'name \'n\' 102',1790102002000000,1790102003000000,102004,'flags \'n\' 102','tres \'n\' 102','node_list \'n\' 102','users \'n\' 102','accounts \'n\' 102');
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `resources` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `name` varchar(128) NOT NULL DEFAULT '',
  `server` varchar(128) NOT NULL DEFAULT '',
  `description` varchar(255) NOT NULL DEFAULT '',
  `server_type` varchar(255) NOT NULL DEFAULT '',
  `flags` varchar(255) NOT NULL DEFAULT '',
  `count` bigint(20) NOT NULL DEFAULT 0,
  `last_consumed` bigint(20) NOT NULL DEFAULT 0,
  `created_us` bigint(20) NOT NULL DEFAULT 0,
  `modified_us` bigint(20) NOT NULL DEFAULT 0,
  `version` bigint(20) NOT NULL DEFAULT 0,
  `is_deleted` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`id`),
  UNIQUE KEY `name` (`name`,`server`)
) ENGINE=InnoDB AUTO_INCREMENT=103 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `resources` VALUES (101,'name \'n\' 101','server \'n\' 101','description \'n\' 101','server_type \'n\' 101','flags \'n\' 101',101006,101007,1790101008000000,1790101009000000,101010,1);
INSERT INTO `resources` VALUES (102,'name \'n\' 102','server \'n\' 102','description \'n\' 102','server_type \'n\' 102','flags \'n\' 102',102006,102007,1790102008000000,1790102009000000,102010,0);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `steps` (
  `job_index` bigint(20) NOT NULL,
  `step_id` bigint(20) NOT NULL,
  `het_component` int(11) NOT NULL,
  `name` varchar(255) NOT NULL DEFAULT '',
  `state` varchar(32) NOT NULL DEFAULT '',
  `start_us` bigint(20) NOT NULL DEFAULT 0,
  `end_us` bigint(20) NOT NULL DEFAULT 0,
  `suspended_us` bigint(20) NOT NULL DEFAULT 0,
  `exit_code` bigint(20) NOT NULL DEFAULT -1,
  `kill_uid` bigint(20) NOT NULL DEFAULT -1,
  `node_list` longtext NOT NULL,
  `nodes` bigint(20) NOT NULL DEFAULT 0,
  `tasks` bigint(20) NOT NULL DEFAULT 0,
  `cpus` bigint(20) NOT NULL DEFAULT 0,
  `distribution` varchar(64) NOT NULL DEFAULT '',
  `time_limit_min` bigint(20) NOT NULL DEFAULT 0,
  `user_cpu_us` bigint(20) NOT NULL DEFAULT 0,
  `system_cpu_us` bigint(20) NOT NULL DEFAULT 0,
  `cpu_frequency_khz` bigint(20) NOT NULL DEFAULT 0,
  `energy_j` bigint(20) NOT NULL DEFAULT -1,
  `frequency_min` varchar(32) NOT NULL DEFAULT '',
  `frequency_max` varchar(32) NOT NULL DEFAULT '',
  `frequency_governor` varchar(32) NOT NULL DEFAULT '',
  `container` longtext NOT NULL,
  `submit_line` longtext NOT NULL,
  `std_in` longtext NOT NULL,
  `std_out` longtext NOT NULL,
  `std_err` longtext NOT NULL,
  `tres_allocated` longtext NOT NULL,
  `tres_usage_in_ave` longtext NOT NULL,
  `tres_usage_in_max` longtext NOT NULL,
  `tres_usage_in_max_node` longtext NOT NULL,
  `tres_usage_in_max_task` longtext NOT NULL,
  `tres_usage_in_min` longtext NOT NULL,
  `tres_usage_in_min_node` longtext NOT NULL,
  `tres_usage_in_min_task` longtext NOT NULL,
  `tres_usage_in_tot` longtext NOT NULL,
  `tres_usage_out_ave` longtext NOT NULL,
  `tres_usage_out_max` longtext NOT NULL,
  `tres_usage_out_max_node` longtext NOT NULL,
  `tres_usage_out_max_task` longtext NOT NULL,
  `tres_usage_out_min` longtext NOT NULL,
  `tres_usage_out_min_node` longtext NOT NULL,
  `tres_usage_out_min_task` longtext NOT NULL,
  `tres_usage_out_tot` longtext NOT NULL,
  PRIMARY KEY (`job_index`,`step_id`,`het_component`),
  KEY `ix_steps_end` (`end_us`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `steps` VALUES (101,101,101,'name \'n\' 101','state \'n\' 101',1790101005000000,1790101006000000,60000000,101008,101009,'node_list \'n\' 101',101011,101012,101013,'distribution \'n\' 101',101015,1790101016000000,1790101017000000,101018,101019,'frequency_min \'n\' 101','frequency_max \'n\' 101','frequency_governor \'n\' 101','container \'n\' 101','submit_line \'n\' 101','std_in \'n\' 101','std_out \'n\' 101','std_err \'n\' 101','tres_allocated \'n\' 101','tres_usage_in_ave \'n\' 101','tres_usage_in_max \'n\' 101','tres_usage_in_max_node \'n\' 101','tres_usage_in_max_task \'n\' 101','tres_usage_in_min \'n\' 101','tres_usage_in_min_node \'n\' 101','tres_usage_in_min_task \'n\' 101','tres_usage_in_tot \'n\' 101','tres_usage_out_ave \'n\' 101','tres_usage_out_max \'n\' 101','tres_usage_out_max_node \'n\' 101','tres_usage_out_max_task \'n\' 101','tres_usage_out_min \'n\' 101','tres_usage_out_min_node \'n\' 101','tres_usage_out_min_task \'n\' 101','tres_usage_out_tot \'n\' 101');
INSERT INTO `steps` VALUES (102,102,102,'name \'n\' 102','state \'n\' 102',1790102005000000,1790102006000000,60000000,102008,102009,'node_list \'n\' 102',102011,102012,102013,'distribution \'n\' 102',102015,1790102016000000,1790102017000000,102018,102019,'frequency_min \'n\' 102','frequency_max \'n\' 102','frequency_governor \'n\' 102','container \'n\' 102','submit_line \'n\' 102','std_in \'n\' 102','std_out \'n\' 102','std_err \'n\' 102','tres_allocated \'n\' 102','tres_usage_in_ave \'n\' 102','tres_usage_in_max \'n\' 102','tres_usage_in_max_node \'n\' 102','tres_usage_in_max_task \'n\' 102','tres_usage_in_min \'n\' 102','tres_usage_in_min_node \'n\' 102','tres_usage_in_min_task \'n\' 102','tres_usage_in_tot \'n\' 102','tres_usage_out_ave \'n\' 102','tres_usage_out_max \'n\' 102','tres_usage_out_max_node \'n\' 102','tres_usage_out_max_task \'n\' 102','tres_usage_out_min \'n\' 102','tres_usage_out_min_node \'n\' 102','tres_usage_out_min_task \'n\' 102','tres_usage_out_tot \'n\' 102');
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `store` (
  `name` varchar(64) NOT NULL DEFAULT '',
  `value` varchar(255) NOT NULL DEFAULT '',
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `store` VALUES ('name \'n\' 101','value \'n\' 101');
INSERT INTO `store` VALUES ('name \'n\' 102','value \'n\' 102');
INSERT INTO `store` VALUES ('next_job_index','1');
INSERT INTO `store` VALUES ('schema_version','16');
INSERT INTO `store` VALUES ('store_id','c15585d440964847b0b66079cf011bcc');
INSERT INTO `store` VALUES ('version','1');
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `suspensions` (
  `job_index` bigint(20) NOT NULL,
  `start_us` bigint(20) NOT NULL,
  `end_us` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`job_index`,`start_us`),
  KEY `ix_suspensions_end` (`end_us`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `suspensions` VALUES (101,1790101001000000,1790101002000000);
INSERT INTO `suspensions` VALUES (102,1790102001000000,1790102002000000);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `texts` (
  `hash` varchar(64) NOT NULL DEFAULT '',
  `text` longtext NOT NULL,
  `last_used_us` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`hash`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `texts` VALUES ('hash \'n\' 101','text \'n\' 101',1790101002000000);
INSERT INTO `texts` VALUES ('hash \'n\' 102','text \'n\' 102',1790102002000000);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `tres` (
  `id` int(11) NOT NULL,
  `type` varchar(64) NOT NULL DEFAULT '',
  `name` varchar(128) NOT NULL DEFAULT '',
  `version` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_tres` (`type`,`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `tres` VALUES (1,'cpu','',1);
INSERT INTO `tres` VALUES (2,'mem','',1);
INSERT INTO `tres` VALUES (3,'energy','',1);
INSERT INTO `tres` VALUES (4,'node','',1);
INSERT INTO `tres` VALUES (5,'billing','',1);
INSERT INTO `tres` VALUES (6,'fs','disk',1);
INSERT INTO `tres` VALUES (7,'vmem','',1);
INSERT INTO `tres` VALUES (8,'pages','',1);
INSERT INTO `tres` VALUES (101,'type \'n\' 101','name \'n\' 101',101003);
INSERT INTO `tres` VALUES (102,'type \'n\' 102','name \'n\' 102',102003);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `txn` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `time_us` bigint(20) NOT NULL DEFAULT 0,
  `action` varchar(64) NOT NULL DEFAULT '',
  `actor` varchar(128) NOT NULL DEFAULT '',
  `cluster` varchar(64) NOT NULL DEFAULT '',
  `object` longtext NOT NULL,
  `info` longtext NOT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_txn_time` (`time_us`)
) ENGINE=InnoDB AUTO_INCREMENT=103 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `txn` VALUES (101,1790101001000000,'action \'n\' 101','actor \'n\' 101','cluster \'n\' 101','object \'n\' 101','info \'n\' 101');
INSERT INTO `txn` VALUES (102,1790102001000000,'action \'n\' 102','actor \'n\' 102','cluster \'n\' 102','object \'n\' 102','info \'n\' 102');
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `users` (
  `name` varchar(128) NOT NULL DEFAULT '',
  `admin_level` bigint(20) NOT NULL DEFAULT 1,
  `default_wckey` varchar(255) NOT NULL DEFAULT '',
  `created_us` bigint(20) NOT NULL DEFAULT 0,
  `modified_us` bigint(20) NOT NULL DEFAULT 0,
  `version` bigint(20) NOT NULL DEFAULT 0,
  `is_deleted` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `users` VALUES ('name \'n\' 101',101001,'default_wckey \'n\' 101',1790101003000000,1790101004000000,101005,1);
INSERT INTO `users` VALUES ('name \'n\' 102',102001,'default_wckey \'n\' 102',1790102003000000,1790102004000000,102005,0);
INSERT INTO `users` VALUES ('root',3,'',0,0,1,0);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `wckey_usage_day` (
  `cluster_id` int(11) NOT NULL,
  `start_us` bigint(20) NOT NULL,
  `wckey` varchar(128) NOT NULL DEFAULT '',
  `user` varchar(128) NOT NULL DEFAULT '',
  `tres_id` int(11) NOT NULL,
  `allocated_s` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cluster_id`,`start_us`,`wckey`,`user`,`tres_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `wckey_usage_day` VALUES (101,1790101001000000,'wckey \'n\' 101','user \'n\' 101',101,101005);
INSERT INTO `wckey_usage_day` VALUES (102,1790102001000000,'wckey \'n\' 102','user \'n\' 102',102,102005);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `wckey_usage_hour` (
  `cluster_id` int(11) NOT NULL,
  `start_us` bigint(20) NOT NULL,
  `wckey` varchar(128) NOT NULL DEFAULT '',
  `user` varchar(128) NOT NULL DEFAULT '',
  `tres_id` int(11) NOT NULL,
  `allocated_s` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cluster_id`,`start_us`,`wckey`,`user`,`tres_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `wckey_usage_hour` VALUES (101,1790101001000000,'wckey \'n\' 101','user \'n\' 101',101,101005);
INSERT INTO `wckey_usage_hour` VALUES (102,1790102001000000,'wckey \'n\' 102','user \'n\' 102',102,102005);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `wckey_usage_month` (
  `cluster_id` int(11) NOT NULL,
  `start_us` bigint(20) NOT NULL,
  `wckey` varchar(128) NOT NULL DEFAULT '',
  `user` varchar(128) NOT NULL DEFAULT '',
  `tres_id` int(11) NOT NULL,
  `allocated_s` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cluster_id`,`start_us`,`wckey`,`user`,`tres_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `wckey_usage_month` VALUES (101,1790101001000000,'wckey \'n\' 101','user \'n\' 101',101,101005);
INSERT INTO `wckey_usage_month` VALUES (102,1790102001000000,'wckey \'n\' 102','user \'n\' 102',102,102005);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `wckeys` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `cluster_id` int(11) NOT NULL,
  `name` varchar(128) NOT NULL DEFAULT '',
  `user` varchar(128) NOT NULL DEFAULT '',
  `is_default` bigint(20) NOT NULL DEFAULT 0,
  `created_us` bigint(20) NOT NULL DEFAULT 0,
  `modified_us` bigint(20) NOT NULL DEFAULT 0,
  `version` bigint(20) NOT NULL DEFAULT 0,
  `is_deleted` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_wckey` (`cluster_id`,`name`,`user`)
) ENGINE=InnoDB AUTO_INCREMENT=103 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `wckeys` VALUES (101,101001,'name \'n\' 101','user \'n\' 101',1,1790101005000000,1790101006000000,101007,1);
INSERT INTO `wckeys` VALUES (102,102001,'name \'n\' 102','user \'n\' 102',0,1790102005000000,1790102006000000,102007,0);
