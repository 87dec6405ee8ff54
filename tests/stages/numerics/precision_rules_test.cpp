#include "stages/numerics/precision_map.h"

#include <gmock/gmock.h>

#include "runner/shared/stage/stage.h"
#include "tests/support/listening_network.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using enum Precision;

PrecisionMap rules(std::vector<PrecisionRule> rules, const std::string& name = "model") {
  return rules_for(ListeningNetwork(), name, {kBf16, std::move(rules)}, "/memory");
}

/// Returns the diagnostic for one rule: its pointer, message and help.
runner::Diagnostics refusal_of_rule(const std::string& rule, const std::string& name = "model") {
  return refusals_of([&] { rules({{rule, kFp32}}, name); });
}

TEST(PrecisionRules, AreRelativeToTheStage) {
  EXPECT_EQ(rules({}), PrecisionMap(kBf16));
  EXPECT_EQ(rules({{"model.head", kFp32}, {"model.trunk.*", kFp32}, {"model", kBf16}}),
            PrecisionMap(kBf16, {{"head", kFp32}, {"trunk.*", kFp32}, {"", kBf16}}));
  EXPECT_EQ(rules({{"backbone.head", kFp32}}, "backbone"), PrecisionMap(kBf16, {{"head", kFp32}}));
  EXPECT_EQ(rules({{"*.head", kFp32}}), PrecisionMap(kBf16, {{"head", kFp32}}));
}

TEST(PrecisionRules, StageNameWinsOverAStar) {
  EXPECT_EQ(rules({{"model.head", kFp32}, {"*.head", kBf16}}),
            PrecisionMap(kBf16, {{"head", kFp32}}));
  EXPECT_EQ(rules({{"*.head", kBf16}, {"model.head", kFp32}}),
            PrecisionMap(kBf16, {{"head", kFp32}}));
}

TEST(PrecisionRules, UnknownModuleSuggestsTheNearest) {
  EXPECT_REFUSED(refusal_of_rule("model.haed"), kUnknownKey, "/memory/precision/model.haed",
                 "'model.head'");
  EXPECT_REFUSED(refusal_of_rule("modle.head"), kUnknownKey, "/memory/precision/modle.head",
                 "'model.head'");
  EXPECT_REFUSED(refusal_of_rule("model.*.*.*.*"), kUnknownKey, "/memory/precision/model.*.*.*.*",
                 "such as 'model.trunk'");
}

TEST(PrecisionRules, NameFromAnotherStageIsUnknown) {
  EXPECT_REFUSED(refusal_of_rule("model.head", "student"), kUnknownKey,
                 "/memory/precision/model.head", "'student.head'");
}

TEST(PrecisionRules, ModuleWithoutItsOwnPrecisionSuggestsItsParent) {
  EXPECT_REFUSED(refusal_of_rule("model.plain"), kUnknownKey, "/memory/precision/model.plain",
                 "'model.plain'", "name 'model'");
  EXPECT_REFUSED(refusal_of_rule("model.*"), kUnknownKey, "/memory/precision/model.*",
                 "'model.plain'", "name 'model'");
  EXPECT_REFUSED(refusal_of_rule("model.ignored"), kUnknownKey, "/memory/precision/model.ignored",
                 "'model.ignored'", "name 'model'");
}

TEST(PrecisionRules, NetworkOfTorchLayersHasASinglePrecision) {
  const torch::nn::Sequential network(torch::nn::Linear(2, 2));
  EXPECT_REFUSED(rules_for(*network, "model", {kBf16, {{"model.0", kFp32}}}, "/memory"),
                 kUnknownKey, "/memory/precision/model.0", "'model.0'", "precision: bf16");
}

}  // namespace
}  // namespace stages
