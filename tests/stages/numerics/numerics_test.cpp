#include "stages/numerics/numerics.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "tests/support/convolutional_networks.h"
#include "tests/support/listening_network.h"
#include "tests/support/recording_context.h"

namespace stages {
namespace {

using testing::ElementsAre, testing::IsEmpty;
using Json = nlohmann::ordered_json;

TEST(Numerics, PolicyIsAppliedSilently) {
  NumericsOptions policy;
  policy.precision = {Precision::kBf16, {{"model.head", Precision::kFp32}}};
  policy.layout = Layout::kContiguous;
  RecordingContext context;
  const Numerics numerics = choose_numerics(policy, ListeningNetwork(), "model", context);
  EXPECT_EQ(numerics.precision, PrecisionMap(Precision::kBf16, {{"head", Precision::kFp32}}));
  EXPECT_FALSE(numerics.tf32);
  EXPECT_EQ(numerics.layout, Layout::kContiguous);
  EXPECT_EQ(numerics.layout_rule, "");
  EXPECT_THAT(context.said, IsEmpty());
}

TEST(Numerics, LayoutRuleIsRecordedAndItsChoiceReported) {
  RecordingContext context;
  const Numerics convolutions = choose_numerics({}, *conv4(), "model", context);
  EXPECT_EQ(convolutions.layout, Layout::kChannelsLast);
  EXPECT_EQ(convolutions.layout_rule, "layout-1");
  EXPECT_THAT(
      context.said,
      ElementsAre("layout: channels_last by the rule layout-1: 3 of 5 layers are convolutions"));
  context.said.clear();
  const Numerics patches = choose_numerics({}, *patch_transformer(), "model", context);
  EXPECT_EQ(patches.layout, Layout::kContiguous);
  EXPECT_EQ(patches.layout_rule, "layout-1");
  EXPECT_THAT(context.said, IsEmpty());
}

TEST(Numerics, OptionsWithoutEffectAreReported) {
  NumericsOptions policy;
  policy.tf32 = true;
  policy.layout = Layout::kChannelsLast;
  RecordingContext context;
  EXPECT_TRUE(choose_numerics(policy, ListeningNetwork(), "model", context).tf32);
  EXPECT_THAT(context.said,
              ElementsAre("tf32 has no effect on the CPU: it computes float32 products in float32",
                          "layout: channels_last has no effect: the network has no convolution"));
}

TEST(Numerics, UnknownModuleIsRejected) {
  NumericsOptions policy;
  policy.pointer = "/memory";
  policy.precision = {Precision::kBf16, {{"model.haed", Precision::kFp32}}};
  RecordingContext context;
  EXPECT_THROW(choose_numerics(policy, ListeningNetwork(), "model", context), runner::StageError);
}

TEST(Numerics, RecordIsComplete) {
  const Numerics plain;
  EXPECT_EQ(to_json(plain).dump(), R"({"precision":"fp32","tf32":false,"layout":"contiguous"})");
  const Numerics rich{
      .precision = {Precision::kBf16, {{"head", Precision::kFp32}, {"", Precision::kFp16}}},
      .tf32 = true,
      .layout = Layout::kChannelsLast,
      .layout_rule = "layout-1"};
  EXPECT_EQ(to_json(rich).dump(),
            R"({"precision":{"default":"bf16","modules":{"head":"fp32","":"fp16"}},"tf32":true,)"
            R"("layout":"channels_last","layout_rule":"layout-1"})");
}

}  // namespace
}  // namespace stages
