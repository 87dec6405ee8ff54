#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/clip_network.h"
#include "stages/model/pretrained.h"
#include "stages/stages.h"
#include "tests/support/captioned_images.h"
#include "tests/support/model_of.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::shared_ptr<const Model> tiny_clip(const Json& more = Json::object()) {
  Json options = Json::parse(kTinyClip);
  options.merge_patch(more);
  return model_of(kModelClip, options);
}

const ImageTextModel& texts_of(const Model& model) {
  return dynamic_cast<const ImageTextModel&>(model);
}

TEST(Clip, EveryByteIsATokenWithoutMerges) {
  const auto model = tiny_clip();
  const TokenizedTexts texts = texts_of(*model).tokenized({"ab c", "x"});
  EXPECT_EQ(texts.ids.sizes(), (std::vector<std::int64_t>{2, 32}));
  EXPECT_EQ(texts.lengths, (std::vector<std::int64_t>{5, 3}));
  EXPECT_TRUE(texts.cut.empty());
  const std::int64_t end = texts.ids[1][2].item<std::int64_t>();
  EXPECT_EQ(end, 513);  // two for each byte, the start and the end
  EXPECT_EQ(texts.ids[1][31].item<std::int64_t>(), end);
}

TEST(Clip, BlankAndLongCaptionsAreRejectedAndQuoted) {
  const auto model = tiny_clip();
  const auto message_of = [&](const std::vector<std::string>& texts) -> std::string {
    try {
      texts_of(*model).tokenized(texts);
    } catch (const runner::StageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message_of({"a", "  "}), HasSubstr("empty: '  '"));
  EXPECT_THAT(message_of({std::string(31, 'a')}), HasSubstr("longer than the 32 tokens"));
  EXPECT_EQ(message_of({std::string(30, 'a')}), "");
}

TEST(Clip, OutlineHasTheModulesOfTheNetwork) {
  const auto model = tiny_clip();
  const DatasetDescription data = CaptionedImages(3).describe();
  const auto network = model->build(data, 1), outline = model->outline(data);
  const auto weights = network->named_parameters(), shapes = outline->named_parameters();
  ASSERT_EQ(weights.size(), shapes.size());
  for (const auto& item : weights) {
    EXPECT_EQ(item.value().sizes(), shapes[item.key()].sizes()) << item.key();
    EXPECT_TRUE(item.value().isfinite().all().item<bool>()) << item.key();
  }
  EXPECT_NEAR(weights["logit_scale"].item<double>(), 2.6592, 1e-6);
  EXPECT_TRUE(weights["class_head.weight"].sizes() == (std::vector<std::int64_t>{3, 6}));
  EXPECT_FALSE(model->build(data, 2)->named_parameters()["text_projection.weight"].equal(
      weights["text_projection.weight"]));
}

TEST(Clip, ClassHeadIsOptional) {
  const auto model = tiny_clip({{"class_head", "none"}});
  EXPECT_FALSE(texts_of(*model).has_class_head());
  const auto network = model->build(CaptionedImages(3).describe(), 1);
  EXPECT_FALSE(network->named_parameters().contains("class_head.weight"));
  EXPECT_FALSE(
      model->forward(*network, {{"image", torch::zeros({1, 3, 8, 8})}}).contains("logits"));
}

TEST(Clip, LogitBiasIsAnOptionalWeight) {
  const DatasetDescription data = CaptionedImages(3).describe();
  EXPECT_FALSE(tiny_clip()->build(data, 1)->named_parameters().contains("logit_bias"));
  const auto network = tiny_clip({{"logit_bias", -10}})->build(data, 1);
  EXPECT_EQ(network->named_parameters()["logit_bias"].item<double>(), -10);
}

TEST(Clip, LogitBiasIsReadFromWeightsThatHaveOne) {
  const DatasetDescription data = CaptionedImages(3).describe();
  const auto network = tiny_clip({{"logit_bias", -10}})->build(data, 1);
  NamedTensors saved = exported(dynamic_cast<const ClipNetwork&>(*network));
  EXPECT_TRUE(load_pretrained(*network, saved, PositionResize::kBicubic).fits());
  EXPECT_EQ(network->named_parameters()["logit_bias"].item<double>(), -10);
  saved.set("logit_bias", torch::tensor(-12.5f));
  EXPECT_TRUE(load_pretrained(*network, saved, PositionResize::kBicubic).fits());
  EXPECT_EQ(network->named_parameters()["logit_bias"].item<double>(), -12.5);
}

TEST(Clip, FingerprintIncludesTokenizerFiles) {
  const TemporaryFolder folder;
  const std::string file = folder.write("merges.txt", "a b\n");
  const auto fingerprint = [](const std::string& options) {
    return (*created(kModelClip, options))->fingerprint();
  };
  const std::string options = R"({"tokenizer": {"merges": ")" + file + "\"}}";
  const std::string before = fingerprint(options);
  folder.write("merges.txt", "b a\n");
  EXPECT_NE(fingerprint(options), before);
  EXPECT_NE(before, "");
  EXPECT_EQ(fingerprint("{}"), "");
}

TEST(Clip, WidthMustBeDivisibleByTheNumberOfHeads) {
  EXPECT_REFUSED(created(kModelClip, R"({"text": {"hidden_size": 10, "num_attention_heads": 4}})"),
                 kOptionConflict, "/model/text/hidden_size", "hidden_size 10",
                 "num_attention_heads 4");
}

}  // namespace
}  // namespace stages
