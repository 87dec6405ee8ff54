#include "stages/numerics/precision_map.h"

#include <gmock/gmock.h>

#include "runner/shared/stage/stage.h"
#include "tests/support/listening_network.h"

namespace stages {
namespace {

constexpr auto kFp32 = Precision::kFp32, kBf16 = Precision::kBf16;

PrecisionMap rules(std::vector<PrecisionRule> rules, const std::string& name = "model") {
  return rules_for(ListeningNetwork(), name, {kBf16, std::move(rules)}, "/memory");
}

/// What is said of one rule: its place, the message and the help.
std::string refusal(const std::string& rule, const std::string& name = "model") {
  try {
    rules({{rule, kFp32}}, name);
  } catch (const runner::StageError& error) {
    EXPECT_EQ(error.code, runner::ErrorCode::kUnknownKey);
    return error.stage + error.option + ": " + error.what() + "; " + error.help;
  }
  return "";
}

TEST(PrecisionRules, AreTakenOutOfTheNameOfTheStage) {
  EXPECT_EQ(rules({}), PrecisionMap(kBf16));
  EXPECT_EQ(rules({{"model.head", kFp32}, {"model.trunk.*", kFp32}, {"model", kBf16}}),
            PrecisionMap(kBf16, {{"head", kFp32}, {"trunk.*", kFp32}, {"", kBf16}}));
  EXPECT_EQ(rules({{"backbone.head", kFp32}}, "backbone"), PrecisionMap(kBf16, {{"head", kFp32}}));
  EXPECT_EQ(rules({{"*.head", kFp32}}), PrecisionMap(kBf16, {{"head", kFp32}}));
}

TEST(PrecisionRules, NameOfTheStageIsNearerThanAStar) {
  EXPECT_EQ(rules({{"model.head", kFp32}, {"*.head", kBf16}}),
            PrecisionMap(kBf16, {{"head", kFp32}}));
  EXPECT_EQ(rules({{"*.head", kBf16}, {"model.head", kFp32}}),
            PrecisionMap(kBf16, {{"head", kFp32}}));
}

TEST(PrecisionRules, UnknownModuleNamesTheNearest) {
  EXPECT_EQ(refusal("model.haed"),
            "/memory/precision/model.haed: 'model.haed' names no module of the network of 'model'; "
            "did you mean "
            "'model.head'?");
  EXPECT_EQ(refusal("modle.head"),
            "/memory/precision/modle.head: 'modle.head' names no module of the network of 'model'; "
            "did you mean "
            "'model.head'?");
  EXPECT_EQ(refusal("model.*.*.*.*"),
            "/memory/precision/model.*.*.*.*: 'model.*.*.*.*' names no module of the network of "
            "'model'; name a module by its stage and its path in it, such as 'model.trunk'");
}

TEST(PrecisionRules, NameOfAnotherStageIsUnknown) {
  EXPECT_EQ(refusal("model.head", "student"),
            "/memory/precision/model.head: 'model.head' names no module of the network of "
            "'student'; did you mean "
            "'student.head'?");
}

TEST(PrecisionRules, ModuleWithoutAPrecisionOfItsOwnNamesTheOneAroundIt) {
  EXPECT_EQ(refusal("model.plain"),
            "/memory/precision/model.plain: 'model.plain' cannot have its own precision; name "
            "'model', which runs it");
  EXPECT_EQ(refusal("model.*"),
            "/memory/precision/model.*: 'model.plain' cannot have its own precision; name 'model', "
            "which runs it");
  EXPECT_EQ(refusal("model.ignored"),
            "/memory/precision/model.ignored: 'model.ignored' cannot have its own precision; name "
            "'model', which runs it");
}

TEST(PrecisionRules, NetworkOfTorchsOwnLayersTakesOnePrecision) {
  const torch::nn::Sequential network(torch::nn::Linear(2, 2));
  try {
    rules_for(*network, "model", {kBf16, {{"model.0", kFp32}}}, "/memory");
    ADD_FAILURE() << "taken";
  } catch (const runner::StageError& error) {
    EXPECT_STREQ(error.what(), "'model.0' cannot have its own precision");
    EXPECT_EQ(error.help, "write one precision for the whole network, such as 'precision: bf16'");
  }
}

}  // namespace
}  // namespace stages
