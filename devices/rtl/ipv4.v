// Reads and writes the headers of Ethernet, IPv4 without options and UDP in the first word of a frame.

// The sum of an IPv4 header in 16-bit words, folded; 16'hffff if its checksum is right.
module ipv4_sum (
    input  wire [159:0] header,  // as on the wire, first byte in bits 7..0
    output wire [15:0]  sum
);
    reg [19:0] wide;
    reg [16:0] once;
    integer i;
    always @* begin
        wide = 0;
        for (i = 0; i < 10; i = i + 1) wide = wide + {4'd0, header[i*16 +: 8], header[i*16+8 +: 8]};
        once = {1'b0, wide[15:0]} + {13'd0, wide[19:16]};
    end
    assign sum = once[15:0] + {15'd0, once[16]};
endmodule

// What the first word says. `udp`: a whole IPv4 datagram of UDP with a right header checksum, and its lengths agree.
module ipv4_parse (
    input  wire [511:0] head,
    input  wire [15:0]  bytes,   // of the frame
    output wire         udp,
    output wire [31:0]  source,
    output wire [31:0]  target,
    output wire [15:0]  source_port,
    output wire [15:0]  target_port,
    output wire [47:0]  source_mac,
    output wire [15:0]  payload  // bytes behind UDP's header
);
    function [15:0] two(input [511:0] word, input integer at);
        two = {word[at*8 +: 8], word[at*8+8 +: 8]};
    endfunction
    wire [15:0] sum;
    ipv4_sum check(.header(head[14*8 +: 160]), .sum(sum));
    wire [15:0] total = two(head, 16);
    wire [15:0] udp_bytes = two(head, 38);
    assign source = {two(head, 26), two(head, 28)};
    assign target = {two(head, 30), two(head, 32)};
    assign source_port = two(head, 34);
    assign target_port = two(head, 36);
    assign source_mac = {two(head, 6), two(head, 8), two(head, 10)};
    assign payload = udp_bytes - 16'd8;
    // No fragments: neither an offset nor more of them (bit 13, and bits 12..0 of the word at byte 20).
    assign udp = bytes >= 16'd42 && two(head, 12) == 16'h0800 && head[14*8 +: 8] == 8'h45 && head[23*8 +: 8] == 8'd17 &&
        (two(head, 20) & 16'h3fff) == 0 && sum == 16'hffff && udp_bytes >= 16'd8 &&
        // Sums of 17 bits: lengths near 65,535 do not wrap.
        {1'b0, total} == {1'b0, udp_bytes} + 17'd20 && {1'b0, bytes} >= {1'b0, total} + 17'd14;
endmodule

// Headers of a datagram of the device: TTL 64, no fragments, no UDP checksum. 42 bytes as on the wire.
module ipv4_emit (
    input  wire [47:0]  target_mac,
    input  wire [47:0]  source_mac,
    input  wire [31:0]  source,
    input  wire [31:0]  target,
    input  wire [15:0]  source_port,
    input  wire [15:0]  target_port,
    input  wire [15:0]  payload,
    output wire [335:0] head
);
    function [15:0] swap(input [15:0] v);
        swap = {v[7:0], v[15:8]};
    endfunction
    function [31:0] swap4(input [31:0] v);
        swap4 = {swap(v[15:0]), swap(v[31:16])};
    endfunction
    function [47:0] swap6(input [47:0] v);
        swap6 = {swap(v[15:0]), swap(v[31:16]), swap(v[47:32])};
    endfunction
    wire [15:0] udp_bytes = payload + 16'd8;
    wire [15:0] total = payload + 16'd28;
    wire [79:0] front = {8'd17, 8'd64, 16'h0040, 16'd0, swap(total), 8'd0, 8'h45};
    wire [63:0] addresses = {swap4(target), swap4(source)};
    wire [15:0] sum;
    ipv4_sum make(.header({addresses, 16'd0, front}), .sum(sum));
    assign head = {16'd0, swap(udp_bytes), swap(target_port), swap(source_port), addresses, swap(~sum), front,
        16'h0008, swap6(source_mac), swap6(target_mac)};
endmodule
