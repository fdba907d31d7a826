// Olaf's accelerator (OLAF, §7 "Olaf Packet Processing Pipeline"): identification, the queue, and stamps in ACKs.
//
// Uplink, stream s to m: an update of a known worker goes through the queue, all else around it; what goes around leaves first.
// Downlink, stream a to b: an ACK of the server gets the state of the queue and goes to the group of its worker's cluster.
// Layout: `olaf_strict` of docs/strict.md. The worker is the source address; the paper's hash of the five-tuple stands for it.
module olaf #(
    parameter PORT_BITS = 5,
    parameter WORKER_BITS = 8,
    parameter CLUSTER_BITS = 6,
    parameter SLOTS = 17,
    parameter BLOCKS = 24,          // 64-byte blocks of the largest frame (§12.1: 24 hold 1500 bytes)
    parameter BLOCK_BITS = 5,
    parameter SHARED = 1,
    parameter FLOAT = 1,
    parameter MUTANT = 0
) (
    input  wire                 clk,
    input  wire                 rst,
    input  wire [63:0]          now_ns,
    input  wire [511:0]         s_tdata,
    input  wire [63:0]          s_tkeep,
    input  wire                 s_tlast,
    input  wire                 s_tvalid,
    input  wire [PORT_BITS-1:0] s_tuser,
    output wire                 s_tready,
    output wire [511:0]         m_tdata,
    output wire [63:0]          m_tkeep,
    output wire                 m_tlast,
    output wire                 m_tvalid,
    output wire [(1<<PORT_BITS)-1:0] m_tuser,
    input  wire                 m_tready,
    input  wire                 m_start,    // the link can take another frame
    input  wire [511:0]         a_tdata,
    input  wire [63:0]          a_tkeep,
    input  wire                 a_tlast,
    input  wire                 a_tvalid,
    input  wire [PORT_BITS-1:0] a_tuser,
    output wire                 a_tready,
    output reg  [511:0]         b_tdata,
    output reg  [63:0]          b_tkeep,
    output reg                  b_tlast,
    output reg                  b_tvalid,
    output reg  [(1<<PORT_BITS)-1:0] b_tuser,
    input  wire                 b_tready,
    // Tables of the control plane. 0: workers; 1: address of worker 0, the others follow; 2: address of the server; 3: group of
    // cluster 0; 4: slots; 5: bit 0 compares rewards, bit 1 lets what leaves hold its slot; 6: threshold, binary32; 7: ports
    // of the server; 8: how long a cluster is active, ns; 256 + w: cluster of worker w.
    input  wire                 cfg_valid,
    input  wire [15:0]          cfg_address,
    input  wire [47:0]          cfg_data,
    output wire                 busy,
    output wire                 still,      // nothing changes at this edge without input: the link is waited for
    // What happened to whom, in this cycle: olaf_queue.v.
    output wire [3:0]           event_kind,
    output wire [WORKER_BITS-1:0] event_worker,
    output wire                 departed,
    output wire [WORKER_BITS-1:0] departed_worker,
    output wire [15:0]          departed_count,
    output wire [64*15-1:0]     counters
);
    localparam CLUSTERS = 1 << CLUSTER_BITS;
    integer i;

    // ---- tables
    reg [WORKER_BITS:0] workers;
    reg [31:0] first_ip, server_ip, group_ip, threshold;
    reg [4:0] slots;
    reg filter, hold;
    reg [(1<<PORT_BITS)-1:0] server_ports;
    reg [47:0] window_ns;
    reg [CLUSTER_BITS-1:0] cluster_of [0:(1<<WORKER_BITS)-1];
    always @(posedge clk) begin
        if (rst) begin
            workers <= 0;
            first_ip <= 0;
            server_ip <= 0;
            group_ip <= 0;
            threshold <= 0;
            slots <= 8;
            filter <= 0;
            hold <= 0;
            server_ports <= 0;
            window_ns <= 48'd1_000_000_000;
        end else if (cfg_valid) begin
            case (cfg_address)
                0: workers <= cfg_data[WORKER_BITS:0];
                1: first_ip <= cfg_data[31:0];
                2: server_ip <= cfg_data[31:0];
                3: group_ip <= cfg_data[31:0];
                4: slots <= cfg_data[4:0];
                5: {hold, filter} <= cfg_data[1:0];
                6: threshold <= cfg_data[31:0];
                7: server_ports <= cfg_data[(1<<PORT_BITS)-1:0];
                8: window_ns <= cfg_data;
                default: if (cfg_address[15:8] == 1) cluster_of[cfg_address[WORKER_BITS-1:0]] <= cfg_data[CLUSTER_BITS-1:0];
            endcase
        end
    end

    reg [63:0] updates, appended, merged, subsumed, outranked, queue_full, reward_low, malformed, bypassed, departures, acks,
        downlink, no_route, contended_cycles, held_cycles;
    assign counters = {held_cycles, contended_cycles, no_route, downlink, acks, departures, bypassed, malformed, reward_low,
        queue_full, outranked, subsumed, merged, appended, updates};

    // ---- uplink
    wire full, long, store_empty, free;
    wire [511:0] head, word;
    wire [15:0] bytes;
    wire [PORT_BITS-1:0] port;
    wire store_read;
    wire [BLOCK_BITS-1:0] store_at;
    frame_store #(.WORDS(BLOCKS), .AT_BITS(BLOCK_BITS), .PORT_BITS(PORT_BITS)) store(
        .clk(clk), .rst(rst), .s_tdata(s_tdata), .s_tkeep(s_tkeep), .s_tlast(s_tlast), .s_tvalid(s_tvalid),
        .s_tuser(s_tuser), .s_tready(s_tready), .full(full), .free(free), .head(head), .bytes(bytes), .long(long),
        .port(port), .read(store_read), .at(store_at), .word(word), .empty(store_empty));
    wire udp;
    wire [31:0] source, target;
    wire [15:0] source_port, target_port, payload;
    wire [47:0] source_mac;
    ipv4_parse parse(.head(head), .bytes(bytes), .udp(udp), .source(source), .target(target), .source_port(source_port),
        .target_port(target_port), .source_mac(source_mac), .payload(payload));
    wire [31:0] number = source - first_ip;
    wire known = number < {{31-WORKER_BITS{1'b0}}, workers};
    wire [WORKER_BITS-1:0] worker = number[WORKER_BITS-1:0];
    // Frames are as long as IPv4 says: bytes behind an update would be added, too.
    wire is_update = udp && known && target_port == 16'd48510 && payload >= 4 && payload[1:0] == 0 &&
        bytes == payload + 16'd42;

    // Identified one cycle after the frame is there; what is too long is no frame.
    localparam [1:0] WAIT = 0, QUEUE = 1, AROUND = 2;
    reg [1:0] state;
    reg [CLUSTER_BITS-1:0] cluster;
    reg [WORKER_BITS-1:0] sender;
    wire queue_done;
    wire queue_fetch;
    wire [BLOCK_BITS-1:0] queue_at;
    wire [511:0] q_tdata;
    wire [63:0] q_tkeep;
    wire q_tlast, q_tvalid, leaving, queue_busy, contended, held_back;
    wire [4:0] occupancy;
    wire queue_still;
    reg around_valid, around_last, drop_long;
    reg [BLOCK_BITS:0] around_next;
    reg [63:0] around_keep;
    wire around_room = !around_valid || m_tready;
    wire around_fetch = state == AROUND && !leaving && around_room && around_next < around_words;
    wire [15:0] around_up = bytes + 16'd63;
    wire [BLOCK_BITS:0] around_words = around_up[BLOCK_BITS+6:6];
    wire around_through = around_valid && m_tready && around_last;
    olaf_queue #(.SLOTS(SLOTS), .CLUSTER_BITS(CLUSTER_BITS), .WORKER_BITS(WORKER_BITS), .BLOCK_BITS(BLOCK_BITS),
        .SHARED(SHARED), .FLOAT(FLOAT), .MUTANT(MUTANT)) queue(
        .clk(clk), .rst(rst), .slots(slots), .hold(hold), .filter(filter), .threshold(threshold),
        .offer(state == QUEUE && !queue_done), .cluster(cluster), .worker(sender), .bytes(bytes),
        .reward({head[45*8 +: 8], head[44*8 +: 8], head[43*8 +: 8], head[42*8 +: 8]}),
        .fetch(queue_fetch), .fetch_at(queue_at), .fetched(word), .done(queue_done),
        .start(m_start && state != AROUND), .m_tdata(q_tdata), .m_tkeep(q_tkeep), .m_tlast(q_tlast), .m_tvalid(q_tvalid),
        .m_tready(m_tready), .leaving(leaving), .occupancy(occupancy), .busy(queue_busy), .still(queue_still), .event_kind(event_kind),
        .event_worker(event_worker), .departed(departed), .departed_worker(departed_worker),
        .departed_count(departed_count), .contended(contended), .held_back(held_back));
    assign store_read = state == AROUND ? around_fetch : queue_fetch;
    assign store_at = state == AROUND ? around_next[BLOCK_BITS-1:0] : queue_at;
    assign free = queue_done || around_through || drop_long;
    assign m_tdata = around_valid ? word : q_tdata;
    assign m_tkeep = around_valid ? around_keep : q_tkeep;
    assign m_tlast = around_valid ? around_last : q_tlast;
    assign m_tvalid = around_valid || q_tvalid;
    assign m_tuser = server_ports;

    // ---- active clusters: those with an arrival within the window
    reg [63:0] arrived_ns [0:CLUSTERS-1];
    reg [CLUSTERS-1:0] arrived;
    reg [(1<<PORT_BITS)-1:0] ports_of [0:CLUSTERS-1];
    always @(posedge clk) begin
        drop_long <= 0;
        if (around_valid && m_tready) around_valid <= 0;
        case (state)
            WAIT: if (full && !drop_long) begin
                cluster <= cluster_of[worker];
                sender <= worker;
                around_next <= 0;
                if (long) begin
                    malformed <= malformed + 1;
                    drop_long <= 1;
                end else if (is_update) begin
                    updates <= updates + 1;
                    state <= QUEUE;
                    arrived_ns[cluster_of[worker]] <= now_ns;
                    arrived[cluster_of[worker]] <= 1;
                    ports_of[cluster_of[worker]] <= (arrived[cluster_of[worker]] ? ports_of[cluster_of[worker]] : 0) |
                        ({{(1<<PORT_BITS)-1{1'b0}}, 1'b1} << port);
                end else begin
                    bypassed <= bypassed + 1;
                    state <= AROUND;
                end
            end
            QUEUE: if (queue_done) state <= WAIT;
            AROUND: begin
                if (around_fetch) begin
                    around_next <= around_next + 1'b1;
                    around_valid <= 1;
                    around_last <= around_next + 1'b1 == around_words;
                    around_keep <= around_next + 1'b1 == around_words && bytes[5:0] != 0 ?
                        (64'd1 << bytes[5:0]) - 64'd1 : ~64'd0;
                end
                if (around_through) state <= WAIT;
            end
            default: state <= WAIT;
        endcase
        case (event_kind)
            1: appended <= appended + 1;
            2: merged <= merged + 1;
            3: subsumed <= subsumed + 1;
            4: outranked <= outranked + 1;
            5: queue_full <= queue_full + 1;
            6: reward_low <= reward_low + 1;
            7: malformed <= malformed + 1;
            default: ;
        endcase
        if (departed) departures <= departures + 1;
        if (contended) contended_cycles <= contended_cycles + 1;
        if (held_back) held_cycles <= held_cycles + 1;
        if (rst) begin
            state <= WAIT;
            arrived <= 0;
            around_valid <= 0;
            around_last <= 0;
            {updates, appended, merged, subsumed, outranked, queue_full, reward_low, malformed, bypassed, departures} <= 0;
            {contended_cycles, held_cycles} <= 0;
        end
    end

    // ---- downlink
    wire a_full, a_long, a_empty;
    reg a_free;
    wire [511:0] a_head, a_word;
    wire [15:0] a_bytes;
    wire [PORT_BITS-1:0] a_port;
    reg [BLOCK_BITS:0] a_next;
    wire a_read;
    frame_store #(.WORDS(BLOCKS), .AT_BITS(BLOCK_BITS), .PORT_BITS(PORT_BITS)) a_store(
        .clk(clk), .rst(rst), .s_tdata(a_tdata), .s_tkeep(a_tkeep), .s_tlast(a_tlast), .s_tvalid(a_tvalid),
        .s_tuser(a_tuser), .s_tready(a_tready), .full(a_full), .free(a_free), .head(a_head), .bytes(a_bytes), .long(a_long),
        .port(a_port), .read(a_read), .at(a_next[BLOCK_BITS-1:0]), .word(a_word), .empty(a_empty));
    wire a_udp;
    wire [31:0] a_source, a_target;
    wire [15:0] a_source_port, a_target_port, a_payload;
    wire [47:0] a_source_mac;
    ipv4_parse a_parse(.head(a_head), .bytes(a_bytes), .udp(a_udp), .source(a_source), .target(a_target),
        .source_port(a_source_port), .target_port(a_target_port), .source_mac(a_source_mac), .payload(a_payload));
    wire [31:0] a_number = a_target - first_ip;
    wire a_known = a_number < {{31-WORKER_BITS{1'b0}}, workers};
    wire is_ack = a_udp && a_source == server_ip && a_known && a_source_port == 16'd48510 && a_payload >= 5 &&
        a_payload[1:0] == 1;
    reg [CLUSTER_BITS:0] active;
    always @* begin
        active = 0;
        for (i = 0; i < CLUSTERS; i = i + 1)
            if (arrived[i] && now_ns - arrived_ns[i] < {16'd0, window_ns}) active = active + 1'b1;
    end
    localparam [1:0] A_WAIT = 0, A_ROUTE = 1, A_SEND = 2;
    reg [1:0] a_state;
    reg [CLUSTER_BITS-1:0] a_cluster;
    reg [CLUSTER_BITS:0] stamp_active;
    reg [4:0] stamp_occupancy;
    reg a_ack;
    wire [31:0] a_group = group_ip + {{32-CLUSTER_BITS{1'b0}}, a_cluster};
    // The stamped ACK: to the group, from whom it was, with all else of its headers made anew.
    wire [335:0] ack_head;
    ipv4_emit ack_emit(.target_mac({24'h01005e, 1'b0, a_group[22:0]}), .source_mac(a_source_mac), .source(a_source),
        .target(a_group), .source_port(a_source_port), .target_port(a_target_port), .payload(a_payload), .head(ack_head));
    wire [39:0] stamp = {{1'b0, stamp_active}, 8'd0, {3'd0, stamp_occupancy}, 16'd0};
    wire b_room = !b_tvalid || b_tready;
    wire [15:0] a_up = a_bytes + 16'd63;
    wire [BLOCK_BITS:0] a_words = a_up[BLOCK_BITS+6:6];
    reg a_behind;
    assign a_read = a_state == A_SEND && b_room && a_next < a_words;
    always @(posedge clk) begin
        a_free <= 0;
        if (b_tvalid && b_tready) b_tvalid <= 0;
        case (a_state)
            A_WAIT: if (a_full && !a_free) begin
                a_cluster <= cluster_of[a_number[WORKER_BITS-1:0]];
                a_ack <= is_ack;
                stamp_active <= active;
                stamp_occupancy <= occupancy;
                a_state <= A_ROUTE;
            end
            A_ROUTE: begin
                a_next <= 0;
                a_behind <= 0;
                b_tuser <= ports_of[a_cluster];
                if (a_long || !a_known || !arrived[a_cluster]) begin
                    no_route <= no_route + 1;
                    a_free <= 1;
                    a_state <= A_WAIT;
                end else begin
                    if (a_ack) acks <= acks + 1;
                    downlink <= downlink + 1;
                    a_state <= A_SEND;
                end
            end
            A_SEND: if (b_room) begin
                a_behind <= a_read;
                if (a_read) a_next <= a_next + 1'b1;
                if (a_behind) begin
                    b_tvalid <= 1;
                    b_tdata <= a_ack && a_next == 1 ? {a_word[511:376], stamp, ack_head} : a_word;
                    b_tlast <= a_next == a_words && !a_read;
                    b_tkeep <= a_next == a_words && !a_read && a_bytes[5:0] != 0 ? (64'd1 << a_bytes[5:0]) - 64'd1 : ~64'd0;
                    if (!a_read) begin
                        a_free <= 1;
                        a_state <= A_WAIT;
                    end
                end
            end
            default: a_state <= A_WAIT;
        endcase
        if (rst) begin
            a_state <= A_WAIT;
            a_next <= 0;
            b_tvalid <= 0;
            a_behind <= 0;
            {acks, downlink, no_route} <= 0;
        end
    end
    assign busy = full || !store_empty || state != WAIT || queue_busy || around_valid || a_full || !a_empty ||
        a_state != A_WAIT || b_tvalid || a_free || drop_long;
    assign still = queue_still && !full && store_empty && state == WAIT && !around_valid && !a_full && a_empty &&
        a_state == A_WAIT && !b_tvalid && !a_free && !drop_long;
    wire unused = &{1'b0, target, source_port, source_mac, a_port, around_up, a_up};
endmodule
