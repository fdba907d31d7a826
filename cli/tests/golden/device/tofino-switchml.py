# file: switchml_tables.py
# What the controller of p4lang/p4app-switchML writes when a session of UDP workers begins, over BF Runtime. The entries that never
# change (bitmaps, counters, exponents, processors, next steps) it writes when it starts. Run this where P4 Studio's bfrt_grpc is.
import bfrt_grpc.client as gc

interface = gc.ClientInterface("127.0.0.1:50052", client_id=0, device_id=0)
interface.bind_pipeline_config("SwitchML")
info = interface.bfrt_info_get("SwitchML")
target = gc.Target(0, pipe_id=0xFFFF)


def add(name, keys, data, action=None):
    table = info.table_get(name)
    values = [gc.DataTuple(*d) if isinstance(d, tuple) else d for d in data]
    made = table.make_data(values, action) if action else table.make_data(values)
    table.entry_add(target, [table.make_key([gc.KeyTuple(*k) for k in keys])], [made])


def dev_port(front, lane):
    table = info.table_get("$PORT_HDL_INFO")
    key = table.make_key([gc.KeyTuple("$CONN_ID", front), gc.KeyTuple("$CHNL_ID", lane)])
    return next(table.entry_get(target, [key], {"from_hw": False}))[0].to_dict()["$DEV_PORT"]


receive, forward, reply = (info.table_get(n) for n in (
    "pipe.Ingress.udp_receiver.receive_udp", "pipe.Ingress.forwarder.forward", "pipe.Egress.udp_sender.dst_addr"))
for name in ("hdr.ethernet.dst_addr", "hdr.ethernet.src_addr"):
    receive.info.key_field_annotation_add(name, "mac")
for name in ("hdr.ipv4.dst_addr", "hdr.ipv4.src_addr"):
    receive.info.key_field_annotation_add(name, "ipv4")
forward.info.key_field_annotation_add("hdr.ethernet.dst_addr", "mac")
reply.info.data_field_annotation_add("ip_dst_addr", "Egress.udp_sender.set_dst_addr", "ipv4")
reply.info.data_field_annotation_add("eth_dst_addr", "Egress.udp_sender.set_dst_addr", "mac")

switch = info.table_get("pipe.Egress.udp_sender.switch_mac_and_ip")
switch.info.data_field_annotation_add("switch_mac", "Egress.udp_sender.set_switch_mac_and_ip", "mac")
switch.info.data_field_annotation_add("switch_ip", "Egress.udp_sender.set_switch_mac_and_ip", "ipv4")
switch.default_entry_set(target, switch.make_data([gc.DataTuple("switch_mac", "02:40:0A:28:00:FE"), gc.DataTuple("switch_ip", "10.40.0.254")], "Egress.udp_sender.set_switch_mac_and_ip"))

# Worker 0
port = dev_port(1, 0)
add("$PORT", [("$DEV_PORT", port)], [gc.DataTuple("$SPEED", str_val="BF_SPEED_100G"), gc.DataTuple("$FEC", str_val="BF_FEC_TYP_NONE"), gc.DataTuple("$PORT_ENABLE", bool_val=True)])
add("pipe.Ingress.forwarder.forward", [("hdr.ethernet.dst_addr", "02:40:0A:28:00:01")], [("egress_port", port)], "Ingress.forwarder.set_egress_port")
add("pipe.Ingress.udp_receiver.receive_udp", [("$MATCH_PRIORITY", 10), ("ig_intr_md.ingress_port", 0, 0),
    ("hdr.ethernet.src_addr", "02:40:0A:28:00:01", "FF:FF:FF:FF:FF:FF"), ("hdr.ethernet.dst_addr", "02:40:0A:28:00:FE", "FF:FF:FF:FF:FF:FF"),
    ("hdr.ipv4.src_addr", "10.40.0.1", "255.255.255.255"), ("hdr.ipv4.dst_addr", "10.40.0.254", "255.255.255.255"),
    ("hdr.udp.dst_port", 0xbee0, 0xfff0), ("ig_prsr_md.parser_err", 0, 0)],
    [("mgid", 0), ("worker_type", 1), ("worker_id", 0), ("num_workers", 4), ("worker_bitmap", 0x1)],
    "Ingress.udp_receiver.set_bitmap")
add("pipe.Egress.udp_sender.dst_addr", [("eg_md.switchml_md.worker_id", 0)], [("eth_dst_addr", "02:40:0A:28:00:01"), ("ip_dst_addr", "10.40.0.1")], "Egress.udp_sender.set_dst_addr")
add("$pre.node", [("$MULTICAST_NODE_ID", 0)], [("$MULTICAST_RID", 0), gc.DataTuple("$DEV_PORT", int_arr_val=[port])])

# Worker 1
port = dev_port(2, 0)
add("$PORT", [("$DEV_PORT", port)], [gc.DataTuple("$SPEED", str_val="BF_SPEED_100G"), gc.DataTuple("$FEC", str_val="BF_FEC_TYP_NONE"), gc.DataTuple("$PORT_ENABLE", bool_val=True)])
add("pipe.Ingress.forwarder.forward", [("hdr.ethernet.dst_addr", "02:40:0A:28:00:02")], [("egress_port", port)], "Ingress.forwarder.set_egress_port")
add("pipe.Ingress.udp_receiver.receive_udp", [("$MATCH_PRIORITY", 10), ("ig_intr_md.ingress_port", 0, 0),
    ("hdr.ethernet.src_addr", "02:40:0A:28:00:02", "FF:FF:FF:FF:FF:FF"), ("hdr.ethernet.dst_addr", "02:40:0A:28:00:FE", "FF:FF:FF:FF:FF:FF"),
    ("hdr.ipv4.src_addr", "10.40.0.2", "255.255.255.255"), ("hdr.ipv4.dst_addr", "10.40.0.254", "255.255.255.255"),
    ("hdr.udp.dst_port", 0xbee0, 0xfff0), ("ig_prsr_md.parser_err", 0, 0)],
    [("mgid", 0), ("worker_type", 1), ("worker_id", 1), ("num_workers", 4), ("worker_bitmap", 0x2)],
    "Ingress.udp_receiver.set_bitmap")
add("pipe.Egress.udp_sender.dst_addr", [("eg_md.switchml_md.worker_id", 1)], [("eth_dst_addr", "02:40:0A:28:00:02"), ("ip_dst_addr", "10.40.0.2")], "Egress.udp_sender.set_dst_addr")
add("$pre.node", [("$MULTICAST_NODE_ID", 1)], [("$MULTICAST_RID", 1), gc.DataTuple("$DEV_PORT", int_arr_val=[port])])

# Worker 2
port = dev_port(3, 0)
add("$PORT", [("$DEV_PORT", port)], [gc.DataTuple("$SPEED", str_val="BF_SPEED_100G"), gc.DataTuple("$FEC", str_val="BF_FEC_TYP_NONE"), gc.DataTuple("$PORT_ENABLE", bool_val=True)])
add("pipe.Ingress.forwarder.forward", [("hdr.ethernet.dst_addr", "02:40:0A:28:00:03")], [("egress_port", port)], "Ingress.forwarder.set_egress_port")
add("pipe.Ingress.udp_receiver.receive_udp", [("$MATCH_PRIORITY", 10), ("ig_intr_md.ingress_port", 0, 0),
    ("hdr.ethernet.src_addr", "02:40:0A:28:00:03", "FF:FF:FF:FF:FF:FF"), ("hdr.ethernet.dst_addr", "02:40:0A:28:00:FE", "FF:FF:FF:FF:FF:FF"),
    ("hdr.ipv4.src_addr", "10.40.0.3", "255.255.255.255"), ("hdr.ipv4.dst_addr", "10.40.0.254", "255.255.255.255"),
    ("hdr.udp.dst_port", 0xbee0, 0xfff0), ("ig_prsr_md.parser_err", 0, 0)],
    [("mgid", 0), ("worker_type", 1), ("worker_id", 2), ("num_workers", 4), ("worker_bitmap", 0x4)],
    "Ingress.udp_receiver.set_bitmap")
add("pipe.Egress.udp_sender.dst_addr", [("eg_md.switchml_md.worker_id", 2)], [("eth_dst_addr", "02:40:0A:28:00:03"), ("ip_dst_addr", "10.40.0.3")], "Egress.udp_sender.set_dst_addr")
add("$pre.node", [("$MULTICAST_NODE_ID", 2)], [("$MULTICAST_RID", 2), gc.DataTuple("$DEV_PORT", int_arr_val=[port])])

# Worker 3
port = dev_port(4, 0)
add("$PORT", [("$DEV_PORT", port)], [gc.DataTuple("$SPEED", str_val="BF_SPEED_100G"), gc.DataTuple("$FEC", str_val="BF_FEC_TYP_NONE"), gc.DataTuple("$PORT_ENABLE", bool_val=True)])
add("pipe.Ingress.forwarder.forward", [("hdr.ethernet.dst_addr", "02:40:0A:28:00:04")], [("egress_port", port)], "Ingress.forwarder.set_egress_port")
add("pipe.Ingress.udp_receiver.receive_udp", [("$MATCH_PRIORITY", 10), ("ig_intr_md.ingress_port", 0, 0),
    ("hdr.ethernet.src_addr", "02:40:0A:28:00:04", "FF:FF:FF:FF:FF:FF"), ("hdr.ethernet.dst_addr", "02:40:0A:28:00:FE", "FF:FF:FF:FF:FF:FF"),
    ("hdr.ipv4.src_addr", "10.40.0.4", "255.255.255.255"), ("hdr.ipv4.dst_addr", "10.40.0.254", "255.255.255.255"),
    ("hdr.udp.dst_port", 0xbee0, 0xfff0), ("ig_prsr_md.parser_err", 0, 0)],
    [("mgid", 0), ("worker_type", 1), ("worker_id", 3), ("num_workers", 4), ("worker_bitmap", 0x8)],
    "Ingress.udp_receiver.set_bitmap")
add("pipe.Egress.udp_sender.dst_addr", [("eg_md.switchml_md.worker_id", 3)], [("eth_dst_addr", "02:40:0A:28:00:04"), ("ip_dst_addr", "10.40.0.4")], "Egress.udp_sender.set_dst_addr")
add("$pre.node", [("$MULTICAST_NODE_ID", 3)], [("$MULTICAST_RID", 3), gc.DataTuple("$DEV_PORT", int_arr_val=[port])])

add("$pre.mgid", [("$MGID", 0)], [gc.DataTuple("$MULTICAST_NODE_ID", int_arr_val=[0, 1, 2, 3]),
    gc.DataTuple("$MULTICAST_NODE_L1_XID_VALID", bool_arr_val=[True, True, True, True]), gc.DataTuple("$MULTICAST_NODE_L1_XID", int_arr_val=[0, 1, 2, 3])])
