// Sum of two numbers of IEEE 754 binary32, rounded to nearest, ties to even; with subnormal numbers, infinities and NaN. Two
// registers: the sum of what is given at one step is there behind the second next edge with `step`. Of NaN the first
// operand's is kept, made quiet; infinity minus infinity is ffc00000, as x86 has it (IEEE 754 leaves both open).
module f32_add (
    input  wire        clk,
    input  wire        step,
    input  wire [31:0] a,
    input  wire [31:0] b,
    output wire [31:0] sum
);
    // ---- 1: the larger magnitude first, the smaller one shifted to its exponent; three bits below, the last one sticky
    wire swap = b[30:0] > a[30:0];
    wire [31:0] high = swap ? b : a;
    wire [30:0] low = swap ? a[30:0] : b[30:0];
    wire [7:0] high_exponent = high[30:23] == 0 ? 8'd1 : high[30:23];
    wire [7:0] low_exponent = low[30:23] == 0 ? 8'd1 : low[30:23];
    wire [7:0] distance = high_exponent - low_exponent;
    wire [26:0] low_mantissa = {low[30:23] != 0, low[22:0], 3'b000};
    wire [26:0] shifted = distance > 26 ? 27'd0 : low_mantissa >> distance;
    wire [26:0] back = distance > 26 ? 27'd0 : shifted << distance;
    wire lost = back != low_mantissa;

    wire a_nan = a[30:23] == 255 && a[22:0] != 0;
    wire b_nan = b[30:23] == 255 && b[22:0] != 0;
    wire cancel = a[30:0] == 31'h7f80_0000 && b[30:0] == 31'h7f80_0000 && a[31] != b[31];

    reg special1, sign1, minus1;
    reg [31:0] value1;
    reg [7:0] exponent1;
    reg [26:0] high1, low1;
    always @(posedge clk) if (step) begin
        special1 <= high[30:23] == 255;
        value1 <= a_nan ? a | 32'h0040_0000 : b_nan ? b | 32'h0040_0000 : cancel ? 32'hffc0_0000 : high;
        sign1 <= high[31];
        minus1 <= a[31] != b[31];
        exponent1 <= high_exponent;
        high1 <= {high[30:23] != 0, high[22:0], 3'b000};
        low1 <= {shifted[26:1], shifted[0] | lost};
    end

    // ---- 2: sum or difference
    reg special2, sign2;
    reg [31:0] value2;
    reg [7:0] exponent2;
    reg [27:0] total2;
    wire [27:0] total = minus1 ? {1'b0, high1} - {1'b0, low1} : {1'b0, high1} + {1'b0, low1};
    always @(posedge clk) if (step) begin
        special2 <= special1;
        value2 <= value1;
        // What cancels is +0.
        sign2 <= sign1 && !(minus1 && total == 0);
        exponent2 <= exponent1;
        total2 <= total;
    end

    // ---- 3: normalised, but not below the exponent of subnormal numbers; rounded
    reg [4:0] zeros;
    integer i;
    always @* begin
        zeros = 27;
        for (i = 0; i <= 26; i = i + 1) if (total2[i]) zeros = 5'd26 - i[4:0];
    end
    wire [4:0] shift = {3'd0, zeros} < exponent2 ? zeros : exponent2[4:0] - 5'd1;
    wire [26:0] normal = total2[27] ? {total2[27:2], total2[1] | total2[0]} : total2[26:0] << shift;
    wire [8:0] exponent3 = total2[27] ? {1'b0, exponent2} + 9'd1 : {1'b0, exponent2} - {4'd0, shift};
    wire up = normal[2] && (normal[1] || normal[0] || normal[3]);
    wire [24:0] rounded = {1'b0, normal[26:3]} + {24'd0, up};
    wire [8:0] exponent4 = rounded[24] ? exponent3 + 9'd1 : exponent3;
    wire [22:0] fraction = rounded[24] ? rounded[23:1] : rounded[22:0];
    wire [7:0] field = rounded[24:23] == 0 ? 8'd0 : exponent4[7:0];
    wire infinite = exponent4 >= 255;
    assign sum = special2 ? value2 : infinite ? {sign2, 31'h7f80_0000} : {sign2, field, fraction};
endmodule
