// Dynamic maps, block-wise quantization and optimizers with 8-bit state, compared with
// bitsandbytes.

#include <optional>
#include <string>
#include <vector>

#include "stages/train/block_quantizer.h"
#include "stages/train/optimizer.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

at::Tensor floats_of(const nlohmann::json& values) {
  return torch::tensor(values.get<std::vector<float>>());
}

/// Decodes base64 to a uint8 tensor.
at::Tensor codes_of(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint8_t> bytes;
  std::size_t value = 0;
  int bits = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    value = value << 6 | digits.find(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<std::uint8_t>(value >> bits & 0xff));
  }
  return torch::tensor(bytes, at::kByte);
}

void compare_quantization(const RecordedCase& recorded) {
  const bool is_signed = recorded.json.at("case").at("signed");
  const auto map = dynamic_map(is_signed);
  EXPECT_EQ(std::vector<float>(map.begin(), map.end()),
            recorded.json.at("map").get<std::vector<float>>());

  const at::Tensor numbers = floats_of(recorded.json.at("numbers"));
  const std::int64_t bytes = bytes_of(BlockQuantizer::scratch_parts(numbers.numel()));
  const auto scratch =
      BlockQuantizer::scratch_within(torch::empty({bytes}, at::kByte), numbers.numel());
  const at::Tensor codes = torch::empty({numbers.numel()}, at::kByte),
                   absmax = torch::empty({quantized_blocks(numbers.numel())}),
                   back = torch::empty_like(numbers);
  const BlockQuantizer quantizer(is_signed, at::kCPU);
  quantizer.quantize(numbers, codes, absmax, scratch, {});
  EXPECT_TRUE(codes.equal(codes_of(recorded.json.at("codes"))));
  EXPECT_TRUE(absmax.equal(floats_of(recorded.json.at("absmax"))));
  quantizer.dequantize(codes, absmax, back, scratch);
  EXPECT_TRUE(back.equal(floats_of(recorded.json.at("back"))));
}

std::optional<OptimizerOptions> rule_of(const std::string& name, Arguments& given) {
  const auto rate = given.get<double>("lr");
  if (name == "SGD") {
    return SgdOptions{.learning_rate = rate,
                      .momentum = given.get<double>("momentum"),
                      .dampening = 0,
                      .nesterov = false,
                      .weight_decay = given.get("weight_decay", 0.0),
                      .state_bits = 8};
  }
  const auto betas = given.get<std::vector<double>>("betas");
  const auto decay = given.get("weight_decay", name == "AdamW" ? 0.01 : 0.0);
  if (name == "Lion") {
    return LionOptions{.learning_rate = rate,
                       .beta1 = betas.at(0),
                       .beta2 = betas.at(1),
                       .weight_decay = decay,
                       .state_bits = 8};
  }
  if (name != "Adam" && name != "AdamW") return std::nullopt;
  return AdamOptions{.learning_rate = rate,
                     .beta1 = betas.at(0),
                     .beta2 = betas.at(1),
                     .epsilon = given.get("eps", 1e-8),
                     .weight_decay = decay,
                     .amsgrad = false,
                     .decoupled = true,
                     .state_bits = 8};
}

/// The last digit of a moment may be rounded differently, which changes its code by one if the
/// moment is halfway between two codes. That moves the path at most as far as the quantization as a
/// whole does, which is the recorded distance from the path in full precision.
void compare_quantized(const RecordedCase& recorded) {
  const nlohmann::json& about = recorded.json.at("case");
  Arguments given(recorded, about.at("optimizer"));
  const auto rule = rule_of(about.at("optimizer"), given);
  ASSERT_TRUE(rule) << "no optimizer here is " << about.at("optimizer");
  const at::Tensor index = torch::arange(about.at("size").get<std::int64_t>());
  at::Tensor x = ((index % 101 - 50).to(at::kFloat) / 64).requires_grad_();
  Optimizer optimizer(*rule, {{"x", x}});
  for (int step = 0; step < about.at("steps"); ++step) {
    const at::Tensor sizes = torch::pow(2.0, -(index * 7 % 3).to(at::kFloat));
    x.mutable_grad() = (2 * ((index * 37 + step * 101) % 257) - 257).to(at::kFloat) / 256 * sizes;
    const at::Tensor scratch = optimizer.prepare();
    optimizer.step({}, {}, scratch);
  }
  const std::int64_t every = about.at("every");
  const at::Tensor error =
      x.detach().slice(0, 0, x.numel(), every).to(at::kDouble) - tensor_of(recorded.json.at("x"));
  EXPECT_LE(error.abs().max().item<double>(), recorded.json.at("rounding").get<double>());

  const NamedTensors state = optimizer.state();
  const std::string first = state.contains("x.mean") ? "x.mean" : "x.momentum";
  for (const auto& [name, number] :
       {std::pair<std::string, std::string>{first, "1"}, {"x.square", "2"}}) {
    if (!recorded.json.contains("state" + number)) continue;
    const at::Tensor expected = codes_of(recorded.json.at("state" + number));
    const at::Tensor distance = (state.at(name).to(at::kInt) - expected.to(at::kInt)).abs();
    EXPECT_LE(distance.max().item<int>(), 1) << name;
    expect_close(state.at(name + "_absmax").to(at::kDouble),
                 tensor_of(recorded.json.at("absmax" + number)), name, 2e-6);
  }
}

}  // namespace

std::vector<CaseKind> quantizer_cases() {
  return {number_kind("Quantization", "quantization", compare_quantization),
          number_kind("QuantizedOptimizers", "quantized_optimizer", compare_quantized)};
}
