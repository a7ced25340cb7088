"""topology.conf of small clusters whose nodes are n1, n2 and so on."""

TREE = "SwitchName=s1 Nodes=n[1-4]\nSwitchName=s2 Nodes=n[5-8]\nSwitchName=top Switches=s[1-2]\n"
BLOCKS = "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4,8\n"
TREE_OF_TEN = """
SwitchName=s1 Nodes=n[1-2]
SwitchName=s2 Nodes=n[3-4]
SwitchName=s3 Nodes=n[5-7]
SwitchName=s4 Nodes=n[8-10]
SwitchName=top Switches=s[1-4]
"""
