// The probabilities with which networks skip residual blocks, and the scaling of the others,
// compared with timm.

#include <numeric>
#include <stdexcept>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/convolutional_classifier.h"
#include "stages/random/dropout.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

ConvolutionalBackbone architecture_of(const std::string& name) {
  if (name == "resnet18") return ResNetOptions{.statistics = BatchNormStatistics::kFixed};
  for (const auto& [ours, backbone] : convolutional_architectures()) {
    if (ours == name) return backbone;
  }
  throw std::runtime_error("no architecture is called " + name);
}

/// Makes the branch of every block 1, or 0.5 with a gate, for any input.
void make_branches_constant(torch::nn::Module& network) {
  const torch::NoGradGuard no_graph;
  network.apply([](torch::nn::Module& module) {
    for (at::Tensor& weight : module.parameters(/*recurse=*/false)) weight.zero_();
    auto* norm = module.as<BatchNorm>();
    if (!norm) return;
    norm->fix_statistics();
    norm->bias.fill_(1);
    for (const auto& buffer : norm->named_buffers(/*recurse=*/false))
      buffer.value().fill_(buffer.key() == "running_var" ? 1 : 0);
  });
}

std::int64_t input_channels(const torch::nn::Module& block) {
  const auto children = block.named_children();
  const auto weights = block.named_parameters();
  if (children.contains("conv_dw") && !children.contains("conv_pwl"))
    return weights["conv_dw.weight"].size(0);
  return weights[children.contains("conv_pw") ? "conv_pw.weight" : "conv1.weight"].size(1);
}

/// For an input of ones, a block computes 1 plus its branch divided by the probability of keeping
/// it, or 1.
void compare_block(RecomputableModule& block, bool has_gate, double probability) {
  constexpr std::int64_t kRows = 64;
  std::vector<std::int64_t> rows(kRows);
  std::iota(rows.begin(), rows.end(), 0);
  const ScopedDropout scope(block, {.seed = 3, .step = 1}, rows);
  const at::Tensor y =
      block.forward(torch::ones({kRows, input_channels(block), 4, 4}, at::kDouble));
  const double kept = 1 + (has_gate ? 0.5 : 1) / (1 - probability);
  std::int64_t kept_rows = 0;
  for (const at::Tensor& row : y.unbind(0)) {
    const double first = row.flatten()[0].item<double>();
    EXPECT_TRUE(row.eq(first).all().item<bool>());
    kept_rows += first == 1 ? 0 : 1;
    EXPECT_NEAR(first, first == 1 ? 1 : kept, 1e-12);
  }
  EXPECT_GT(kept_rows, 0);
}

void compare_drop_path(const RecordedCase& recorded) {
  Arguments arguments(recorded, "create_model");
  const auto backbone = with_drop_path(
      shrunken_backbone(architecture_of(recorded.json.at("case").at("architecture"))),
      arguments.get<double>("drop_path_rate"));
  ASSERT_TRUE(backbone);
  const auto network = make_backbone(*backbone, at::kDouble);
  make_branches_constant(*network);
  network->train();
  const nlohmann::json& blocks = recorded.json.at("blocks");
  std::size_t seen = 0;
  for (const auto& item : network->named_modules()) {
    auto* block = dynamic_cast<RecomputableModule*>(item.value().get());
    if (!block || !block->is_block()) continue;
    const bool skips = block->named_children().contains("drop_path");
    ASSERT_EQ(skips, blocks.contains(item.key())) << item.key();
    if (!skips) continue;
    ++seen;
    SCOPED_TRACE(item.key());
    const bool has_gate = item.key().starts_with("layer") && block->named_children().contains("se");
    compare_block(*block, has_gate, blocks.at(item.key()));
  }
  EXPECT_EQ(seen, blocks.size());
}

}  // namespace

std::vector<CaseKind> drop_path_cases() {
  return {number_kind("DropPaths", "drop_path", compare_drop_path)};
}
