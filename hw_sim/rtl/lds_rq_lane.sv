// One lane of RQ and of MUL: clamp(requantize(acc + bias, multiplier, shift) + zero point, low, high). A step a cycle.
//
// In:   the lanes of the accumulator and of the three operand tiles; the registers, constant while an instruction runs.
// Out:  the result, twelve cycles later (lds_execute.sv's SLOW).
// Next: lds_execute.sv. The three roundings are those of numerics.py.
//
//   1 sum      2 magnitude    3 leading zeros    4 shift left    5 float32 mantissas    6 partial products
//   7 product  8 first rounding (DOUBLE: of the upper half; FLOAT32: to 24 bits)        9 shift right   10 second rounding
//   11 zero point             12 clamp
// SPDX-License-Identifier: Apache-2.0
import lds_isa_pkg::*;
module lds_rq_lane (
    input logic clk,
    input logic is_mul,
    input logic [1:0] rounding,
    input logic [31:0] acc,
    input logic [31:0] bias,
    input logic [31:0] multiplier,
    input logic [31:0] shift,
    input logic [31:0] zero_point,
    input logic [31:0] low,
    input logic [31:0] high,
    output logic [31:0] result
);
  logic is_float, is_single, is_double;  // for all steps in the lane: no step arrives before
  always_ff @(posedge clk) begin
    is_float <= !is_mul && rounding == ROUNDING_FLOAT32;
    is_single <= !is_mul && rounding == ROUNDING_SINGLE;
    is_double <= !is_mul && rounding == ROUNDING_DOUBLE;
  end

  // 1: the sum; the shift lane's signed shift, limited to [-31, 30], and its pre-shift
  logic [31:0] total_1, multiplier_1;
  logic signed [7:0] shift_1;
  logic [4:0] pre_1;
  always_ff @(posedge clk) begin
    total_1 <= is_mul ? acc : acc + bias;
    multiplier_1 <= multiplier;
    shift_1 <= $signed(shift[7:0]) > 8'sd30 ? 8'sd30 : $signed(shift[7:0]) < -8'sd31 ? -8'sd31 : $signed(shift[7:0]);
    pre_1 <= shift[12:8];
  end

  // 2: FLOAT32 works on the magnitude; the shift to the left before the product, and to the right after it
  logic [31:0] value_2, multiplier_2;
  logic [5:0] left_2, right_2;
  logic negative_2;
  always_ff @(posedge clk) begin
    negative_2 <= total_1[31];
    value_2 <= is_float && total_1[31] ? -total_1 : total_1;
    multiplier_2 <= multiplier_1;
    left_2 <= is_mul ? 6'd0 : {1'b0, pre_1} + (is_double && !shift_1[7] ? {1'b0, shift_1[4:0]} : 6'd0);
    right_2 <= is_mul ? 6'd0 : is_single ? 6'(8'sd31 - shift_1) : shift_1[7] ? 6'(-shift_1) : 6'd0;
  end

  // 3: FLOAT32 shifts the leading one to bit 31
  function automatic logic [5:0] leading_zeros(input logic [31:0] value);
    logic [2:0] nibble;  // the highest that is not 0; all are examined in parallel
    logic [3:0] first;
    nibble = 3'd0;
    for (int n = 1; n < 8; n++) if (value[4*n+:4] != 0) nibble = 3'(n);
    first = value[{nibble, 2'b00}+:4];
    leading_zeros = {1'b0, ~nibble, first[3] ? 2'd0 : first[2] ? 2'd1 : first[1] ? 2'd2 : 2'd3};
  endfunction
  logic [31:0] value_3, multiplier_3;
  logic [5:0] left_3, right_3;
  logic negative_3;
  always_ff @(posedge clk) begin
    value_3 <= value_2;
    multiplier_3 <= multiplier_2;
    negative_3 <= negative_2;
    right_3 <= right_2;
    left_3 <= is_float ? leading_zeros(value_2) : left_2;
  end

  // 4: the shift to the left; bits beyond 32 are lost
  logic [31:0] value_4, multiplier_4;
  logic [5:0] left_4, right_4;
  logic negative_4;
  always_ff @(posedge clk) begin
    value_4 <= left_3[5] ? 32'd0 : value_3 << left_3[4:0];
    multiplier_4 <= multiplier_3;
    left_4 <= left_3;
    right_4 <= right_3;
    negative_4 <= negative_3;
  end

  // 5: the factors. FLOAT32: both mantissas of 24 bits, half to even; the shift of the product to the right (149 = 127 + 22); a zero or
  //    subnormal multiplier gives 0 (its product rounds to 0), NaN gives 0, infinity saturates
  logic [31:0] x_5, m_5;
  logic [9:0] right_5;
  logic negative_5, zero_5, saturates_5;
  wire up_4 = value_4[7] && (value_4[6:0] != 0 || value_4[8]);
  wire [7:0] exponent_4 = multiplier_4[30:23];
  always_ff @(posedge clk) begin
    x_5 <= is_float ? {8'd0, value_4[31:8]} + {31'd0, up_4} : value_4;
    m_5 <= is_float ? {8'd0, 1'b1, multiplier_4[22:0]} : multiplier_4;
    right_5 <= is_float ? 10'd149 + {4'd0, left_4} - {2'd0, exponent_4} : {4'd0, right_4};
    negative_5 <= negative_4 ^ multiplier_4[31];
    zero_5 <= is_float && (exponent_4 == 0 || value_4 == 0 || (exponent_4 == 8'hff && multiplier_4[22:0] != 0));
    saturates_5 <= is_float && exponent_4 == 8'hff;
  end

  // 6, 7: the product, as the sum of four that fit DSP blocks; the outer two do not overlap, and are concatenated
  logic signed [34:0] high_high_6, high_low_6, low_high_6, low_low_6;
  logic [9:0] right_6, right_7;
  logic negative_6, zero_6, saturates_6, negative_7, zero_7, saturates_7;
  logic signed [63:0] product_7;
  wire signed [16:0] x_high = {x_5[31], x_5[31:16]}, x_low = {1'b0, x_5[15:0]};
  wire signed [16:0] m_high = {m_5[31], m_5[31:16]}, m_low = {1'b0, m_5[15:0]};
  always_ff @(posedge clk) begin
    high_high_6 <= x_high * m_high;
    high_low_6 <= x_high * m_low;
    low_high_6 <= x_low * m_high;
    low_low_6 <= x_low * m_low;
    {right_6, negative_6, zero_6, saturates_6} <= {right_5, negative_5, zero_5, saturates_5};
    product_7[63:16] <= {high_high_6[31:0], low_low_6[31:16]} + 48'(high_low_6) + 48'(low_high_6);
    product_7[15:0] <= low_low_6[15:0];
    {right_7, negative_7, zero_7, saturates_7} <= {right_6, negative_6, zero_6, saturates_6};
  end

  // 8: DOUBLE rounds the upper half: (product + 2^30) >> 31 is gemmlowp's nudge for both signs. FLOAT32 rounds to 24 bits, half to
  //    even, kept 7 bits above the point
  logic signed [63:0] value_8;
  logic [5:0] right_8;
  logic negative_8, zero_8, saturates_8;
  wire [63:0] nudged = product_7 + 64'sd1073741824;
  wire signed [32:0] upper = nudged[63:31];
  wire largest = !upper[32] && upper[31];  // 2^31, the square of the smallest int32: the only product that exceeds int32
  wire two = product_7[47];  // the product of the mantissas is 2 or more
  wire [23:0] mantissa = two ? product_7[47:24] : product_7[46:23];
  wire half = two ? product_7[23] : product_7[22];
  wire rest = product_7[21:0] != 0 || (two && product_7[22]);
  wire [24:0] rounded_mantissa = {1'b0, mantissa} + {24'd0, half && (rest || mantissa[0])};
  wire [9:0] float_right = right_7 - (two ? 10'd24 : 10'd23);
  always_ff @(posedge clk) begin
    if (is_float) value_8 <= {32'd0, rounded_mantissa, 7'd0};
    else if (is_double) value_8 <= largest ? 64'sd2147483647 : 64'(upper);
    else value_8 <= product_7;
    right_8 <= !is_float ? right_7[5:0] : float_right[9] ? 6'd0 : float_right > 10'd33 ? 6'd33 : float_right[5:0];
    negative_8 <= is_float ? negative_7 : product_7[63];
    zero_8 <= zero_7;
    saturates_8 <= saturates_7 || (is_float && float_right[9]);
  end

  // 9: the shift to the right, with the first fractional bit, unless nothing is rounded, and whether a half is rounded up: always, or
  //    because further fractional bits are set
  logic signed [63:0] value_9;
  logic half_9, goes_up_9, negative_9, zero_9, saturates_9;
  wire signed [64:0] shifted = $signed({value_8, 1'b0}) >>> right_8;
  logic [31:0] behind;
  always_comb for (int n = 0; n < 32; n++) behind[n] = value_8[n] && 7'(n) + 7'd1 < 7'(right_8);
  always_ff @(posedge clk) begin
    value_9 <= shifted[64:1];
    half_9 <= shifted[0] && !is_mul;
    goes_up_9 <= behind != 0 || is_single || (is_double && !negative_8);
    {negative_9, zero_9, saturates_9} <= {negative_8, zero_8, saturates_8};
  end

  // 10: rounded; with FLOAT32's sign, as -(value + up) = ~value + !up; saturated so that a zero point cannot bring it back (FLOAT32:
  //     to int32). A value that does not fit before it is rounded is saturated to the largest rounded value.
  logic signed [33:0] value_10;
  logic [31:0] low_10;
  wire up_9 = half_9 && (goes_up_9 || (is_float && value_9[0]));
  wire flips_9 = is_float && negative_9;
  wire [34:0] sum_9 = ({value_9[33], value_9[33:0]} ^ {35{flips_9}}) + {34'd0, up_9 ^ flips_9};
  // The saturated value does not depend on the sum, and its condition hardly does, because FLOAT32 never has more than 32 bits.
  wire wide_9 = value_9[63:33] != {31{value_9[63]}};
  wire early_9 = wide_9 || (is_float && (zero_9 || saturates_9));
  wire late_9 = (is_float && !negative_9 && sum_9[31]) || sum_9[34] != sum_9[33];
  logic [33:0] instead_9;
  always_comb begin
    instead_9 = {value_9[63], {33{~value_9[63]}}};
    if (is_float) instead_9 = zero_9 ? 34'd0 : negative_9 ? -34'sd2147483648 : 34'sd2147483647;
  end
  always_ff @(posedge clk) begin
    value_10 <= early_9 || late_9 ? instead_9 : sum_9[33:0];
    low_10 <= value_9[31:0];
  end

  // 11, 12: the zero point, the clamp; with low above high the result is high
  logic signed [34:0] value_11;
  logic [31:0] low_11;
  logic empty;
  always_ff @(posedge clk) begin
    value_11 <= 35'(value_10) + 35'($signed(zero_point));
    low_11 <= low_10;
    empty <= $signed(low) > $signed(high);
    if (is_mul) result <= low_11;
    else if (empty || value_11 > 35'($signed(high))) result <= high;
    else if (value_11 < 35'($signed(low))) result <= low;
    else result <= value_11[31:0];
  end
endmodule
