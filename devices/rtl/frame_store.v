// Two banks that take frames of a 64-byte word stream whole and hold them for a reader. While one frame is read, the next
// arrives. Bytes lie as on the wire: byte 0 of a word in bits 7..0. A frame of more than WORDS words is taken and marked `long`.
module frame_store #(
    parameter WORDS = 17,
    parameter AT_BITS = 5,          // of the number of a word
    parameter PORT_BITS = 5
) (
    input  wire                 clk,
    input  wire                 rst,
    input  wire [511:0]         s_tdata,
    input  wire [63:0]          s_tkeep,
    input  wire                 s_tlast,
    input  wire                 s_tvalid,
    input  wire [PORT_BITS-1:0] s_tuser,
    output wire                 s_tready,

    output wire                 full,    // a frame is there
    input  wire                 free,    // the reader is through with it
    output wire [511:0]         head,    // its first word
    output wire [15:0]          bytes,
    output wire                 long,
    output wire [PORT_BITS-1:0] port,
    input  wire                 read,
    input  wire [AT_BITS-1:0]   at,
    output reg  [511:0]         word,    // of `at`, one cycle after `read`
    output wire                 empty
);
    reg [511:0] memory [0:(2<<AT_BITS)-1];
    reg [511:0] heads [0:1];
    reg [15:0] lengths [0:1];
    reg [1:0] longs, occupied;
    reg [PORT_BITS-1:0] ports [0:1];
    reg writing, reading;
    reg [AT_BITS:0] count;
    reg over;

    assign s_tready = !occupied[writing];
    assign full = occupied[reading];
    assign head = heads[reading];
    assign bytes = lengths[reading];
    assign long = longs[reading];
    assign port = ports[reading];
    assign empty = occupied == 0 && count == 0 && !over;

    // Valid bytes of a word: `tkeep` is a run of ones from bit 0.
    function [6:0] kept(input [63:0] keep);
        integer i;
        begin
            kept = 0;
            for (i = 0; i < 64; i = i + 1) kept = kept + {6'd0, keep[i]};
        end
    endfunction

    wire taken = s_tvalid && s_tready;
    wire first = count == 0 && !over;
    wire beyond = over || count == WORDS;

    always @(posedge clk) begin
        if (read) word <= memory[{reading, at}];
        if (taken && !beyond) memory[{writing, count[AT_BITS-1:0]}] <= s_tdata;
        if (taken && first) begin
            heads[writing] <= s_tdata;
            ports[writing] <= s_tuser;
        end
        if (taken && s_tlast) begin
            lengths[writing] <= {{9-AT_BITS{1'b0}}, count, 6'd0} + {9'd0, kept(s_tkeep)};
            longs[writing] <= beyond;
        end
        if (rst) begin
            occupied <= 0;
            writing <= 0;
            reading <= 0;
            count <= 0;
            over <= 0;
        end else begin
            if (taken) begin
                count <= s_tlast ? 0 : beyond ? count : count + 1'b1;
                over <= !s_tlast && beyond;
                if (s_tlast) begin
                    occupied[writing] <= 1;
                    writing <= !writing;
                end
            end
            if (free) begin
                occupied[reading] <= 0;
                reading <= !reading;
            end
        end
    end
endmodule
