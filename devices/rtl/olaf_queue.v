// Olaf's queue (OLAF, §4 Algorithm 1, Figure 11, §12.1). The microarchitecture is ours.
//
// A memory segment holds one update in blocks of 64 bytes. Enqueue and dequeue share the memory: with SHARED one access per
// cycle, read or write; else one read and one write. Where both sides want it they take turns, block by block.
//
// Blocks hold a frame behind two empty bytes: so rewards (byte 42) and gradients (from byte 46) lie on multiples of four.
module olaf_queue #(
    parameter SLOTS = 17,           // segments: one more than can wait, for the one that leaves
    parameter CLUSTER_BITS = 6,
    parameter WORKER_BITS = 8,
    parameter BLOCK_BITS = 5,       // of the number of a block in its segment
    parameter SHARED = 1,
    parameter FLOAT = 1,            // gradients are binary32, else 32-bit integers
    parameter MUTANT = 0            // 0; tests break one rule each with others
) (
    input  wire                    clk,
    input  wire                    rst,
    // Settings: slots in use, whether the segment that leaves holds its slot, comparison of rewards (§3).
    input  wire [4:0]              slots,
    input  wire                    hold,
    input  wire                    filter,
    input  wire [31:0]             threshold,
    // An update that a frame store holds.
    input  wire                    offer,
    input  wire [CLUSTER_BITS-1:0] cluster,
    input  wire [WORKER_BITS-1:0]  worker,
    input  wire [15:0]             bytes,
    input  wire [31:0]             reward,
    output wire                    fetch,
    output wire [BLOCK_BITS-1:0]   fetch_at,
    input  wire [511:0]            fetched,
    output reg                     done,
    // Departures: one begins when `start` is high.
    input  wire                    start,
    output reg  [511:0]            m_tdata,
    output reg  [63:0]             m_tkeep,
    output reg                     m_tlast,
    output reg                     m_tvalid,
    input  wire                    m_tready,
    output wire                    leaving,     // a departure is under way
    // State, and what happened: 1 appended, 2 merged, 3 replaced its own, 4 outranked, 5 full, 6 low reward, 7 other
    // length. A departure has a pulse of its own.
    output wire [4:0]              occupancy,
    output wire                    busy,
    output wire                    still,       // nothing changes at this edge: it waits for the link
    output reg  [3:0]              event_kind,
    output reg  [WORKER_BITS-1:0]  event_worker,
    output reg                     departed,
    output reg  [WORKER_BITS-1:0]  departed_worker,
    output reg  [15:0]             departed_count,
    output reg                     contended,   // both sides wanted the memory in the cycle before
    output reg                     held_back    // a departure waited for a merge or replacement in its segment
);
    localparam CLUSTERS = 1 << CLUSTER_BITS;
    localparam [2:0] IDLE = 0, RANK = 1, RANKED = 2, WORDS = 3, COMMIT = 4;
    localparam [3:0] APPENDED = 1, MERGED = 2, SUBSUMED = 3, OUTRANKED = 4, FULL = 5, LOW = 6, MALFORMED = 7;
    integer i;

    // ---- tables: Algorithm 1's U and S (`waits`, `slot_of`), R (`replaceable`, `owner`), and what a segment holds
    reg [CLUSTERS-1:0] waits, replaceable;
    reg [4:0] slot_of [0:CLUSTERS-1];
    reg [WORKER_BITS-1:0] owner [0:CLUSTERS-1];
    reg [15:0] bytes_of [0:SLOTS-1];
    reg [15:0] count_of [0:SLOTS-1];
    reg [31:0] reward_of [0:SLOTS-1];
    reg [CLUSTER_BITS-1:0] cluster_of [0:SLOTS-1];
    reg [SLOTS-1:0] used;
    // The order of departures.
    reg [4:0] order [0:31];
    reg [4:0] order_head, order_tail;
    wire [4:0] waiting = order_tail - order_head;
    wire [4:0] first = order[order_head];
    reg locked;
    reg [4:0] locked_slot;
    assign occupancy = waiting + {4'd0, locked && hold};

    reg [4:0] unused_slot;
    always @* begin
        unused_slot = 0;
        for (i = SLOTS - 1; i >= 0; i = i - 1) if (!used[i]) unused_slot = i[4:0];
    end

    // ---- decision
    reg [2:0] state;
    reg [3:0] action;
    reg [4:0] slot;
    wire here = waits[cluster];
    wire [4:0] own_slot = slot_of[cluster];
    wire same = replaceable[cluster] && owner[cluster] == worker && MUTANT != 1;
    wire [31:0] old_reward = reward_of[own_slot];
    wire fits = bytes_of[own_slot] == bytes && count_of[own_slot] != 16'hffff;

    // Greater, as numbers: false with a NaN.
    function greater(input [31:0] a, input [31:0] b);
        reg nan, zero;
        begin
            nan = a[30:0] > 31'h7f80_0000 || b[30:0] > 31'h7f80_0000;
            zero = a[30:0] == 0 && b[30:0] == 0;
            greater = !nan && !zero && (a[31] != b[31] ? b[31] : a[31] ? a[30:0] < b[30:0] : a[30:0] > b[30:0]);
        end
    endfunction
    wire [31:0] difference;
    f32_add rank(.clk(clk), .step(1'b1), .a(reward), .b(old_reward ^ 32'h8000_0000), .sum(difference));
    // The higher reward; of a number and a NaN the number.
    wire [31:0] best = greater(reward, old_reward) || old_reward[30:0] > 31'h7f80_0000 ? reward : old_reward;
    reg rank_wait;

    // ---- blocks of the frame in the store, two bytes further on
    wire [16:0] shifted_bytes = {1'b0, bytes} + 17'd65;
    wire [BLOCK_BITS:0] blocks = shifted_bytes[BLOCK_BITS+6:6];
    reg [BLOCK_BITS:0] fetch_next, written;
    reg fetched_valid;
    reg [BLOCK_BITS-1:0] fetched_at;
    reg [15:0] carry;
    wire [511:0] arriving = {fetched[495:0], carry};
    wire fetched_take;
    assign fetch = state == WORDS && fetch_next < blocks && (!fetched_valid || fetched_take);
    assign fetch_at = fetch_next[BLOCK_BITS-1:0];

    // ---- sums: blocks that were read meet those that arrive
    wire merging = action == MERGED;
    reg [3:0] under_way;            // merged blocks that were read and are not yet written
    reg read_valid, add1_valid, add2_valid;
    reg [511:0] read_arriving, add1_arriving, add2_arriving;
    reg [BLOCK_BITS-1:0] read_at, add1_at, add2_at;
    wire [511:0] memory_word;
    wire [511:0] added;
    genvar lane;
    generate
        for (lane = 0; lane < 16; lane = lane + 1) begin : lanes
            wire [31:0] x = memory_word[lane*32 +: 32];
            wire [31:0] y = read_arriving[lane*32 +: 32];
            if (FLOAT) begin : f
                f32_add add(.clk(clk), .step(1'b1), .a(x), .b(y), .sum(added[lane*32 +: 32]));
            end else begin : n
                reg [31:0] one, two;
                always @(posedge clk) begin
                    one <= x + y;
                    two <= one;
                end
                assign added[lane*32 +: 32] = two;
            end
        end
    endgenerate
    // In the first block headers are those of the newer update, without a UDP checksum (bytes 42 and 43 here), then the reward.
    reg [31:0] merged_reward;
    wire [511:0] merged = add2_at == 0 ?
        {added[511:384], merged_reward, 16'd0, add2_arriving[335:0]} : added;
    wire [511:0] result;
    wire [BLOCK_BITS-1:0] result_at;
    wire result_filled;
    wire [3:0] result_count;
    wire result_pop;
    small_fifo #(.WIDTH(512 + BLOCK_BITS)) results(.clk(clk), .rst(rst), .push(add2_valid), .in({add2_at, merged}),
        .pop(result_pop), .out({result_at, result}), .filled(result_filled), .count(result_count));

    // ---- departures: blocks that were read wait here
    reg [BLOCK_BITS:0] leave_next, leave_blocks;
    reg leave_read, out_busy;
    reg [15:0] out_bytes;
    wire [511:0] out_word;
    wire out_filled, out_pop;
    wire [3:0] out_count;
    small_fifo departing(.clk(clk), .rst(rst), .push(leave_read), .in(memory_word), .pop(out_pop), .out(out_word),
        .filled(out_filled), .count(out_count));

    // ---- the memory
    wire want_write = state == WORDS && (merging ? result_filled : fetched_valid);
    wire want_merge = state == WORDS && merging && fetched_valid && under_way < 8;
    wire want_leave = locked && leave_next < leave_blocks && out_count + {3'd0, leave_read} < 6;
    wire want_enter = SHARED ? want_write || want_merge : want_merge;
    reg turn;                       // whose it is if both want it: dequeue's
    wire give_leave = want_leave && (!want_enter || turn);
    wire give_enter = want_enter && (!want_leave || !turn);
    wire give_write = SHARED ? give_enter && want_write : want_write;
    wire give_merge = SHARED ? give_enter && !want_write : give_enter;
    assign result_pop = give_write && merging;
    assign fetched_take = merging ? give_merge : give_write;

    reg [511:0] memory [0:(SLOTS<<BLOCK_BITS)-1];
    reg [511:0] memory_read;
    assign memory_word = memory_read;
    localparam ADDRESS_BITS = 5 + BLOCK_BITS;
    wire [ADDRESS_BITS-1:0] write_at = {slot, merging ? result_at : fetched_at};
    wire [ADDRESS_BITS-1:0] merge_at = {slot, fetched_at};
    wire [ADDRESS_BITS-1:0] leave_at = {locked_slot, leave_next[BLOCK_BITS-1:0]};
    always @(posedge clk) begin
        if (give_write) memory[write_at] <= merging ? result : arriving;
        if (give_leave || give_merge) memory_read <= memory[give_leave ? leave_at : merge_at];
    end

    // ---- enqueue (Algorithm 1)
    wire claims = state == IDLE && offer && !done && here;
    wire taken = (claims && own_slot == first) || (state != IDLE && action != APPENDED && slot == first);
    wire last_written = give_write && written + 1'b1 == blocks;
    wire begins = !locked && !out_busy && !out_filled && !leave_read && waiting != 0 && start && !taken;

    always @(posedge clk) begin
        done <= 0;
        event_kind <= 0;
        contended <= want_enter && want_leave;
        held_back <= !locked && !out_busy && waiting != 0 && start && taken;
        if (want_enter && want_leave) turn <= !turn;

        read_valid <= give_merge;
        read_arriving <= arriving;
        read_at <= fetched_at;
        {add1_valid, add1_arriving, add1_at} <= {read_valid, read_arriving, read_at};
        {add2_valid, add2_arriving, add2_at} <= {add1_valid, add1_arriving, add1_at};
        under_way <= under_way + {3'd0, give_merge} - {3'd0, result_pop};

        case (state)
            IDLE: if (offer && !done) begin
                event_worker <= worker;
                fetch_next <= 0;
                fetched_valid <= 0;
                carry <= 0;
                written <= 0;
                slot <= here ? own_slot : unused_slot;
                merged_reward <= best;
                rank_wait <= 1;
                if (!here) begin
                    // Lines 16 to 22.
                    action <= APPENDED;
                    if (occupancy < slots) begin
                        used[unused_slot] <= 1;
                        state <= WORDS;
                    end else begin
                        event_kind <= FULL;
                        done <= 1;
                    end
                end else if (same) begin
                    // Lines 7 to 9, whatever the rewards.
                    action <= SUBSUMED;
                    state <= WORDS;
                end else begin
                    // Lines 10 to 15, where rewards are alike.
                    action <= MERGED;
                    if (filter) state <= RANK;
                    else if (fits) state <= WORDS;
                    else begin
                        event_kind <= MALFORMED;
                        done <= 1;
                    end
                end
            end
            RANK: begin
                rank_wait <= 0;
                if (!rank_wait) state <= RANKED;
            end
            RANKED: begin
                if (greater(difference, threshold)) begin
                    action <= OUTRANKED;
                    state <= WORDS;
                end else if (greater(threshold ^ 32'h8000_0000, difference)) begin
                    event_kind <= LOW;
                    done <= 1;
                    state <= IDLE;
                end else if (fits) state <= WORDS;
                else begin
                    event_kind <= MALFORMED;
                    done <= 1;
                    state <= IDLE;
                end
            end
            WORDS: begin
                if (fetch) begin
                    fetched_valid <= 1;
                    fetched_at <= fetch_next[BLOCK_BITS-1:0];
                    fetch_next <= fetch_next + 1'b1;
                end else if (fetched_take) fetched_valid <= 0;
                if (fetched_take) carry <= fetched[511:496];
                if (give_write) written <= written + 1'b1;
                if (last_written) state <= COMMIT;
            end
            COMMIT: begin
                event_kind <= action;
                done <= 1;
                state <= IDLE;
                if (action == APPENDED) begin
                    order[order_tail] <= slot;
                    order_tail <= order_tail + 5'd1;
                    waits[cluster] <= 1;
                    slot_of[cluster] <= slot;
                    cluster_of[slot] <= cluster;
                end
                if (!merging) begin
                    bytes_of[slot] <= bytes;
                    count_of[slot] <= 1;
                    reward_of[slot] <= reward;
                    replaceable[cluster] <= 1;
                end else begin
                    count_of[slot] <= count_of[slot] + 16'd1;
                    reward_of[slot] <= merged_reward;
                    replaceable[cluster] <= MUTANT == 2;
                end
                owner[cluster] <= worker;
            end
            default: state <= IDLE;
        endcase

        // ---- dequeue: the first segment is locked (§12.1); its cluster may wait once more behind it
        departed <= begins;
        if (begins) begin
            departed_worker <= owner[cluster_of[first]];
            departed_count <= count_of[first];
            locked <= 1;
            locked_slot <= first;
            order_head <= order_head + 5'd1;
            waits[cluster_of[first]] <= 0;
            leave_next <= 0;
            leave_blocks <= leave_of[BLOCK_BITS+6:6];
            out_bytes <= bytes_of[first];
            out_busy <= 1;
        end
        leave_read <= give_leave;
        if (give_leave) begin
            leave_next <= leave_next + 1'b1;
            if (leave_next + 1'b1 == leave_blocks && !hold) begin
                locked <= 0;
                used[locked_slot] <= 0;
            end
        end
        if (ends) begin
            out_busy <= 0;
            if (hold) begin
                locked <= 0;
                used[locked_slot] <= 0;
            end
        end
        if (rst) begin
            state <= IDLE;
            waits <= 0;
            used <= 0;
            order_head <= 0;
            order_tail <= 0;
            locked <= 0;
            leave_read <= 0;
            leave_next <= 0;
            leave_blocks <= 0;
            out_busy <= 0;
            read_valid <= 0;
            add1_valid <= 0;
            add2_valid <= 0;
            under_way <= 0;
            turn <= 0;
            fetched_valid <= 0;
            done <= 0;
            event_kind <= 0;
            departed <= 0;
        end
    end
    wire [16:0] leave_of = {1'b0, bytes_of[first]} + 17'd65;

    // ---- output: two bytes back. A word leaves when the block behind it is there, or there is none.
    reg [495:0] kept;
    reg [BLOCK_BITS:0] out_at;
    reg tail;                       // the last word is in `kept` alone
    wire [16:0] round_up = {1'b0, out_bytes} + 17'd63;
    wire [BLOCK_BITS:0] out_words = round_up[BLOCK_BITS+6:6];
    wire [16:0] shifted_up = {1'b0, out_bytes} + 17'd65;
    wire [BLOCK_BITS:0] out_blocks = shifted_up[BLOCK_BITS+6:6];
    wire room = !m_tvalid || m_tready;
    wire [63:0] last_keep = out_bytes[5:0] == 0 ? ~64'd0 : (64'd1 << out_bytes[5:0]) - 64'd1;
    assign out_pop = out_filled && room && !tail;
    wire ends = m_tvalid && m_tready && m_tlast;
    assign leaving = out_busy;
    always @(posedge clk) begin
        if (m_tvalid && m_tready) m_tvalid <= 0;
        if (out_pop) begin
            kept <= out_word[511:16];
            out_at <= out_at + 1'b1;
            if (out_at != 0) begin
                m_tvalid <= 1;
                m_tdata <= {out_word[15:0], kept};
                m_tlast <= out_at == out_words;
                m_tkeep <= out_at == out_words ? last_keep : ~64'd0;
            end
            tail <= out_at + 1'b1 == out_blocks && out_words == out_blocks;
        end else if (tail && room) begin
            m_tvalid <= 1;
            m_tdata <= {16'd0, kept};
            m_tlast <= 1;
            m_tkeep <= last_keep;
            tail <= 0;
        end
        if (ends) out_at <= 0;
        if (rst) begin
            m_tvalid <= 0;
            m_tlast <= 0;
            out_at <= 0;
            tail <= 0;
        end
    end
    assign still = state == IDLE && !offer && !done && event_kind == 0 && !departed && !contended && !held_back && !begins &&
        !leave_read && !want_leave && (m_tvalid ? !m_tready : !out_filled && !tail);
    assign busy = state != IDLE || waiting != 0 || locked || out_busy || m_tvalid || event_kind != 0 || departed || done;
    wire unused = &{1'b0, add2_arriving[511:336], result_count, shifted_bytes, leave_of, round_up, shifted_up};
endmodule
