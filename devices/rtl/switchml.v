// SwitchML's switch as a slot adder (Trio paper, §6.1; the rules are those of its public program, docs/switchml.md).
//
// A frame is taken whole, then decided upon in two cycles, then added one 64-byte word per cycle. Values begin at byte 52, so
// the lanes of frame and memory are the same: three in the first word, sixteen in all others. Results leave word by word while
// the last packet is added.
module switchml #(
    parameter POOL = 512,       // slots of a set, a power of two
    parameter WORKERS = 32,
    parameter PORT_BITS = 5,
    parameter MUTANT = 0        // 0; tests break one rule each with others
) (
    input  wire                 clk,
    input  wire                 rst,
    input  wire [511:0]         s_tdata,
    input  wire [63:0]          s_tkeep,
    input  wire                 s_tlast,
    input  wire                 s_tvalid,
    input  wire [PORT_BITS-1:0] s_tuser,    // port on which the frame arrived
    output wire                 s_tready,
    output reg  [511:0]         m_tdata,
    output reg  [63:0]          m_tkeep,
    output reg                  m_tlast,
    output reg                  m_tvalid,
    output reg  [(1<<PORT_BITS)-1:0] m_tuser, // ports on which it leaves
    input  wire                 m_tready,
    // Tables of the control plane. 0: workers of the job; 1: address, 2: Ethernet address of the switch; 3: group of the
    // job; 4: values of a packet, 64 or 256; 5: slots of a set in use; 32 + w: address of worker w.
    input  wire                 cfg_valid,
    input  wire [7:0]           cfg_address,
    input  wire [47:0]          cfg_data,
    output wire                 busy,
    output wire [64*9-1:0]      counters    // in the order of the registers below, the first lowest
);
    localparam SLOT_BITS = $clog2(POOL);
    localparam CELL = 54;       // bitmap 32, left 6, exponents 16
    localparam LAST_KEEP = 64'h000f_ffff_ffff_ffff;  // 52 bytes, both of 64 and of 256 values
    localparam [2:0] CLEAR = 0, IDLE = 1, FETCH = 2, DECIDE = 3, ADD = 4;

    reg [63:0] packets, results, answered, dropped, malformed, unknown, wrong_count, table_full, words;
    assign counters = {words, table_full, wrong_count, unknown, malformed, dropped, answered, results, packets};

    // ---- tables
    reg [5:0] workers;
    reg [31:0] own_ip, group_ip;
    reg [47:0] own_mac;
    reg big;                  // 256 values
    reg [SLOT_BITS:0] pool;
    reg [31:0] worker_ip [0:WORKERS-1];
    integer i;
    always @(posedge clk) begin
        if (rst) begin
            workers <= 0;
            pool <= POOL;
            big <= 1;
            own_ip <= 0;
            own_mac <= 0;
            group_ip <= 0;
        end else if (cfg_valid) begin
            case (cfg_address)
                0: workers <= cfg_data[5:0];
                1: own_ip <= cfg_data[31:0];
                2: own_mac <= cfg_data;
                3: group_ip <= cfg_data[31:0];
                4: big <= cfg_data[8];
                5: pool <= cfg_data[SLOT_BITS:0];
                default: if (cfg_address[7:5] == 1) worker_ip[cfg_address[4:0]] <= cfg_data[31:0];
            endcase
        end
    end

    // ---- the frame that is worked on
    wire full, long, store_empty;
    wire [511:0] head, incoming;
    wire [15:0] bytes;
    wire [PORT_BITS-1:0] port;
    reg free;
    wire step = !m_tvalid || m_tready;
    reg [4:0] at;
    reg [2:0] state;
    wire reading = state == ADD && step;
    frame_store #(.WORDS(17), .PORT_BITS(PORT_BITS)) store(
        .clk(clk), .rst(rst), .s_tdata(s_tdata), .s_tkeep(s_tkeep), .s_tlast(s_tlast), .s_tvalid(s_tvalid),
        .s_tuser(s_tuser), .s_tready(s_tready), .full(full), .free(free), .head(head), .bytes(bytes), .long(long),
        .port(port), .read(reading), .at(at), .word(incoming), .empty(store_empty));

    wire udp;
    wire [31:0] source, target;
    wire [15:0] source_port, target_port, payload;
    wire [47:0] source_mac;
    ipv4_parse parse(.head(head), .bytes(bytes), .udp(udp), .source(source), .target(target), .source_port(source_port),
        .target_port(target_port), .source_mac(source_mac), .payload(payload));

    // | type 4, unused 1, size 3 | job 8 | packet 32 | set 1, unused 1, slot 14 | e0 i8 | e1 i8 | from byte 42 on.
    wire [7:0] kind = head[42*8 +: 8];
    wire set = head[48*8+7];
    wire [13:0] slot = {head[48*8 +: 6], head[49*8 +: 8]};
    wire signed [7:0] e0 = head[50*8 +: 8];
    wire signed [7:0] e1 = head[51*8 +: 8];
    wire is_small = kind == 8'h11 && payload == 16'd266;
    wire is_large = kind == 8'h13 && payload == 16'd1034;
    wire well_formed = udp && !long && target_port[15:4] == 12'hbee && (is_small || is_large);

    // Who it is from: all entries of the table at once.
    reg [5:0] found;
    always @* begin
        found = 63;
        for (i = WORKERS - 1; i >= 0; i = i - 1)
            if (i < workers && worker_ip[i] == source) found = i[5:0];
    end

    wire unused = &{1'b0, target};

    // ---- registers of slots: both sets of one slot in a word, as one access reads and writes them
    reg [2*CELL-1:0] cells [0:POOL-1];
    reg [2*CELL-1:0] pair;
    reg cells_write;
    reg [SLOT_BITS-1:0] cells_at;
    reg [2*CELL-1:0] cells_in;
    wire [SLOT_BITS-1:0] slot_at = slot[SLOT_BITS-1:0];
    always @(posedge clk) begin
        if (cells_write) cells[cells_at] <= cells_in;
        if (state == FETCH) pair <= cells[slot_at];
    end

    reg [4:0] worker;
    wire [31:0] bit_of = 32'd1 << worker;
    wire [CELL-1:0] own = set ? pair[CELL +: CELL] : pair[0 +: CELL];
    wire [CELL-1:0] other = set ? pair[0 +: CELL] : pair[CELL +: CELL];
    wire [31:0] bitmap = own[31:0];
    wire [5:0] left = own[37:32];
    wire signed [7:0] had_e0 = own[45:38];
    wire signed [7:0] had_e1 = own[53:46];
    wire again = (bitmap & bit_of) != 0;
    wire begins = bitmap == 0;
    // The counter goes down with every new bit; who finds 1, or is alone, is the last (workers_counter).
    wire [5:0] next_left = left == 0 ? workers - 6'd1 : left - 6'd1;
    wire last = left == 1 || workers == 1;
    wire signed [7:0] new_e0 = begins || e0 > had_e0 ? e0 : had_e0;
    wire signed [7:0] new_e1 = begins || e1 > had_e1 ? e1 : had_e1;
    wire [CELL-1:0] own_after = again ? own : {new_e1, new_e0, next_left, bitmap | bit_of};
    wire [CELL-1:0] other_after = MUTANT == 1 ? other : {other[CELL-1:32], other[31:0] & ~bit_of};

    // ---- ports of workers: where their latest packet came from
    reg [PORT_BITS-1:0] port_of [0:WORKERS-1];
    reg [WORKERS-1:0] port_known;
    reg [(1<<PORT_BITS)-1:0] all_ports;
    always @* begin
        all_ports = 0;
        for (i = 0; i < WORKERS; i = i + 1)
            if (i < workers && port_known[i]) all_ports[port_of[i]] = 1;
    end

    // ---- sums
    reg [511:0] sums [0:POOL*64-1];
    reg [511:0] sum;
    reg overwrite, adds, emits, alone;
    reg signed [7:0] out_e0, out_e1;
    wire [4:0] last_word = big ? 5'd16 : 5'd4;
    reg behind, behind_last;    // the word that was read one step before is there
    reg [4:0] behind_at;
    wire [SLOT_BITS+5:0] sums_read = {slot_at, set, at};
    wire [SLOT_BITS+5:0] sums_write = {slot_at, set, behind_at};
    reg [511:0] total;
    reg [31:0] lane;
    always @* begin
        for (i = 0; i < 16; i = i + 1) begin
            // Lanes are big-endian on the wire and in memory, and wrap around.
            lane = {incoming[i*32 +: 8], incoming[i*32+8 +: 8], incoming[i*32+16 +: 8], incoming[i*32+24 +: 8]};
            if (!overwrite)
                lane = lane + {sum[i*32 +: 8], sum[i*32+8 +: 8], sum[i*32+16 +: 8], sum[i*32+24 +: 8]};
            if (MUTANT == 2 && i == 15 && behind_at == 3 && !overwrite) lane = lane + 1;
            total[i*32 +: 32] = adds ? {lane[7:0], lane[15:8], lane[23:16], lane[31:24]} : sum[i*32 +: 32];
        end
    end
    always @(posedge clk) begin
        if (reading) sum <= sums[sums_read];
        if (state == ADD && step && behind && adds) sums[sums_write] <= total;
    end

    // ---- headers of an answer: to the job's group, or to the worker that repeated its request
    wire [47:0] group_mac = {24'h01005e, 1'b0, group_ip[22:0]};
    wire [335:0] out_head;
    ipv4_emit emit(.target_mac(alone ? source_mac : group_mac), .source_mac(own_mac), .source(own_ip),
        .target(alone ? source : group_ip), .source_port(target_port), .target_port(source_port), .payload(payload),
        .head(out_head));

    assign busy = state != IDLE || full || !store_empty || m_tvalid || free;

    always @(posedge clk) begin
        free <= 0;
        cells_write <= 0;
        if (rst) begin
            state <= CLEAR;
            cells_at <= 0;
            cells_in <= 0;
            cells_write <= 1;
            m_tvalid <= 0;
            m_tlast <= 0;
            behind <= 0;
            port_known <= 0;
            at <= 0;
            {packets, results, answered, dropped, malformed, unknown, wrong_count, table_full, words} <= 0;
        end else begin
            if (m_tvalid && m_tready) m_tvalid <= 0;
            case (state)
                // All slots empty, one after the other.
                CLEAR: begin
                    cells_write <= 1;
                    cells_at <= cells_at + 1'b1;
                    if (&cells_at) begin
                        cells_write <= 0;
                        state <= IDLE;
                    end
                end
                IDLE: if (full && !free) begin
                    packets <= packets + 1;
                    free <= 1;
                    if (!well_formed) malformed <= malformed + 1;
                    else if (found == 63) unknown <= unknown + 1;
                    else if (is_large != big) wrong_count <= wrong_count + 1;
                    else if ({2'd0, slot} >= {{15-SLOT_BITS{1'b0}}, pool}) table_full <= table_full + 1;
                    else begin
                        free <= 0;
                        worker <= found[4:0];
                        state <= FETCH;
                    end
                end
                FETCH: begin
                    port_of[worker] <= port;
                    port_known[worker] <= 1;
                    state <= DECIDE;
                end
                DECIDE: begin
                    cells_write <= 1;
                    cells_at <= slot_at;
                    cells_in <= set ? {own_after, other_after} : {other_after, own_after};
                    at <= 0;
                    behind <= 0;
                    adds <= !again;
                    overwrite <= begins;
                    alone <= again;
                    out_e0 <= again ? had_e0 : new_e0;
                    out_e1 <= again ? had_e1 : new_e1;
                    if (again && left != 0 && MUTANT != 3) begin
                        dropped <= dropped + 1;
                        free <= 1;
                        emits <= 0;
                        state <= IDLE;
                    end else begin
                        emits <= again || last;
                        if (again) answered <= answered + 1;
                        else if (last) results <= results + 1;
                        state <= ADD;
                    end
                end
                ADD: if (step) begin
                    behind <= at <= last_word;
                    behind_at <= at;
                    behind_last <= at == last_word;
                    at <= at + 5'd1;
                    if (behind) begin
                        words <= words + 1;
                        m_tvalid <= emits;
                        m_tdata <= behind_at == 0 ? {total[511:416], out_e1, out_e0, head[49*8+7:42*8], out_head} : total;
                        m_tkeep <= behind_last ? LAST_KEEP : ~64'd0;
                        m_tlast <= behind_last;
                        m_tuser <= alone && MUTANT != 4 ? {{(1<<PORT_BITS)-1{1'b0}}, 1'b1} << port : all_ports;
                        if (behind_last) begin
                            behind <= 0;
                            free <= 1;
                            state <= IDLE;
                        end
                    end
                end
                default: state <= CLEAR;
            endcase
        end
    end
endmodule
