// A first-in, first-out store of eight words whose first is visible at once.
module small_fifo #(
    parameter WIDTH = 512
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             push,
    input  wire [WIDTH-1:0] in,
    input  wire             pop,
    output wire [WIDTH-1:0] out,
    output wire             filled,
    output reg  [3:0]       count
);
    reg [WIDTH-1:0] memory [0:7];
    reg [2:0] head, tail;
    assign out = memory[head];
    assign filled = count != 0;
    always @(posedge clk) begin
        if (push) memory[tail] <= in;
        if (rst) begin
            head <= 0;
            tail <= 0;
            count <= 0;
        end else begin
            if (push) tail <= tail + 3'd1;
            if (pop) head <= head + 3'd1;
            count <= count + {3'd0, push} - {3'd0, pop};
        end
    end
endmodule
