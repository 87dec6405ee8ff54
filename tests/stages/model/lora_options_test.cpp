#include "stages/model/lora_targets.h"

#include <gmock/gmock.h>

#include "runner/shared/stage/config_reader.h"
#include "tests/support/refused.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

using List = std::vector<std::string>;

/// Reads the adapter options of model.lora and returns their errors in `errors`.
LoraOptions read(const std::string& json, runner::Diagnostics* errors = nullptr) {
  const runner::Value value = stage_options("model/lora", json);
  runner::ConfigReader reader(value, "/model");
  const LoraOptions options = read_lora_options(reader);
  for (const char* of_stage : {"backbone", "num_classes", "adapter"}) reader.raw(of_stage);
  const runner::Diagnostics found = reader.finish();
  if (errors) *errors = found;
  else EXPECT_TRUE(are_refused(found, {}));
  return options;
}

runner::Diagnostics errors_of(const std::string& json) {
  runner::Diagnostics errors;
  return read(json, &errors), errors;
}

TEST(LoraOptionsTest, DefaultsMatchThePublishedOnes) {
  LoraOptions expected{.rank = 8, .alpha = 16, .dropout = 0.1};
  expected.targets = List{"q_proj"};
  EXPECT_EQ(read("{}"), expected);
}

TEST(LoraOptionsTest, EveryOptionIsRead) {
  const LoraOptions options =
      read(R"({"rank": 4, "alpha": 2.5, "rank_stabilized": true, "dropout": 0,
    "targets": ["fc1", "q_proj"], "exclude": ".*1.*", "layers": [0, 2], "layers_pattern": "layers",
    "rank_pattern": {"z": 2, "a": 3}, "alpha_pattern": {"fc1": 1}, "bias": "lora_only", "initialization": "gaussian",
    "modules_to_save": ["visual_projection"]})");
  LoraOptions expected{.rank = 4, .alpha = 2.5, .rank_stabilized = true, .dropout = 0};
  expected.targets = List{"fc1", "q_proj"};
  expected.exclude = ".*1.*";
  expected.layers = {0, 2};
  expected.layers_pattern = {"layers"};
  expected.rank_pattern = {{"z", 2}, {"a", 3}};
  expected.alpha_pattern = {{"fc1", 1}};
  expected.bias = LoraBias::kAdapted;
  expected.initialization = LoraInitialization::kGaussian;
  expected.modules_to_save = {"visual_projection"};
  EXPECT_EQ(options, expected);
}

TEST(LoraOptionsTest, LayersAreCountedUnderAnyPrefix) {
  EXPECT_EQ(read(R"({"layers": [1]})").layers_pattern, List{"[^.]*"});
}

TEST(LoraOptionsTest, InvalidExpressionIsAnErrorAtItsOption) {
  EXPECT_ALL_REFUSED(errors_of(R"({"targets": "a(", "exclude": "[", "rank_pattern": {"x(": 2}})"),
                     {kBadPattern, "/model/targets", {"'a('", "character 2"}},
                     {kBadPattern, "/model/exclude", {"'['", "character 1"}},
                     {kBadPattern, "/model/rank_pattern/x(", {"'x('", "character 2"}});
}

TEST(LoraOptionsTest, ScalingIsAlphaOverRankOrItsSquareRoot) {
  LoraOptions options;
  EXPECT_EQ(lora_scaling(options, 4, 8), 2);
  options.rank_stabilized = true;
  EXPECT_EQ(lora_scaling(options, 4, 8), 4);
}

}  // namespace
}  // namespace stages
