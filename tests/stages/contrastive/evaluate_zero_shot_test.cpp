#include <limits>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "stages/artifact/results.h"
#include "stages/numerics/precision_map.h"
#include "stages/weights/weights.h"
#include "tests/support/forwarded_dataset.h"
#include "tests/support/on_test_device.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/text_evaluation.h"

namespace stages {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

using ZeroShot = TextEvaluation;

TEST_F(ZeroShot, ClassEmbeddingIsTheMeanOverTemplates) {
  const nlohmann::json metrics =
      run(kEvaluateZeroShot, {{"templates", {"a {name}", "my {name}!"}}, {"batch_size", 4}});
  std::vector<at::Tensor> classes;
  for (const std::string& name : data_->describe().classes) {
    const at::Tensor mean = texts({"a " + name, "my " + name + "!"}).mean(0);
    classes.push_back(mean / mean.norm());
  }
  const at::Tensor found = images().matmul(torch::stack(classes).t()).argmax(1);
  const at::Tensor labels = torch::tensor(data_->labels());
  EXPECT_NEAR(metrics["top1"].get<double>(), found.eq(labels).to(at::kDouble).mean().item<double>(),
              1e-12);
  const auto predictions = runner::Inputs({{"predictions", {outputs_.at("predictions")}}})
                               .get<Predictions>("predictions");
  EXPECT_TRUE(predictions->scores.argmax(1).equal(found));
  EXPECT_EQ(predictions->classes, data_->describe().classes);
}

TEST_F(ZeroShot, PromptsUseTheClassWordsOfCaptions) {
  const auto data = std::make_shared<CaptionedImages>(14);
  data->words = {"dark red", "sea green", "sky blue"};
  data_ = data;
  run(kEvaluateZeroShot, {{"templates", {"a {name}"}}});
  const at::Tensor found =
      images().matmul(texts({"a dark red", "a sea green", "a sky blue"}).t()).argmax(1);
  const auto predictions = runner::Inputs({{"predictions", {outputs_.at("predictions")}}})
                               .get<Predictions>("predictions");
  EXPECT_TRUE(predictions->scores.argmax(1).equal(found));
  EXPECT_FALSE(found.equal(images().matmul(texts({"a red", "a green", "a blue"}).t()).argmax(1)));
}

TEST_F(ZeroShot, NearestClassIsFoundInFullPrecision) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    policy_->precision.base = precision;
    run(kEvaluateZeroShot, {{"templates", {"a {name}"}}});
    std::vector<std::string> asked;
    for (const std::string& name : data_->describe().classes) asked.push_back("a " + name);
    at::Tensor of_images, of_texts;
    {
      const ScopedPrecision half(precision, here().device());
      of_images = images().to(at::kFloat);
      of_texts = texts(asked).to(at::kFloat);
    }
    of_texts = of_texts / of_texts.norm(2, 1, /*keepdim=*/true);
    const at::Tensor logits = of_images.matmul(of_texts.t()) *
                              weights(*checkpoint_->network).at("logit_scale").exp().item<double>();
    const auto predictions = runner::Inputs({{"predictions", {outputs_.at("predictions")}}})
                                 .get<Predictions>("predictions");
    const at::Tensor expected = logits.to(at::kDouble).softmax(1);
    // Six products and a factor are rounded to float32. In half precision, a logit would have a
    // relative error of 2^-9.
    const double rounding =
        16 * std::numeric_limits<float>::epsilon() * logits.abs().max().item<double>();
    EXPECT_LT((predictions->scores - expected).abs().max().item<double>(), rounding)
        << name(precision);
    EXPECT_GT((logits.to(scalar_type(precision)).to(at::kDouble).softmax(1) - expected)
                  .abs()
                  .max()
                  .item<double>(),
              rounding);
  }
}

TEST_F(ZeroShot, ClassHeadIsAlsoMeasured) {
  const nlohmann::json metrics = run(kEvaluateZeroShot, Json::object());
  const torch::NoGradGuard no_graph;
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < 14; ++i) {
    const NamedTensors sample = *data_->sample(0, i);
    const at::Tensor logits =
        checkpoint_->model
            ->forward(*checkpoint_->network,
                      {{"image", sample.at("image").unsqueeze(0).to(here().device())}})
            .at("logits");
    right +=
        logits.argmax(1).item<std::int64_t>() == sample.at("label").item<std::int64_t>() ? 1 : 0;
  }
  EXPECT_NEAR(metrics["class_head"]["top1"].get<double>(), static_cast<double>(right) / 14, 1e-12);
  EXPECT_THAT(context_.said, testing::Contains(testing::StartsWith("class head: top-1 ")));
  EXPECT_FALSE(run(kEvaluateZeroShot, {{"class_head", false}}).contains("class_head"));
}

TEST_F(ZeroShot, UnseenClassesAreReported) {
  data_ = std::make_shared<CaptionedImages>(6, std::vector<std::string>{"round", "square"});
  const nlohmann::json metrics = run(kEvaluateZeroShot, Json::object());
  EXPECT_EQ(metrics["per_class"].size(), 2U);
  EXPECT_THAT(context_.said, testing::Contains(HasSubstr("it was trained on other classes")));
}

TEST_F(ZeroShot, WithinAClassEachImageMustFindItsOwnCaption) {
  const nlohmann::json metrics = run(kEvaluateZeroShot, {{"within_class", true}});
  const double images = metrics["within_class"]["images"];
  EXPECT_EQ(metrics["within_class"]["accuracy"],
            images > 0 ? 1 : 0);  // a class has one caption here
}

/// Images of three classes with three captions each. No image has the caption at position `absent`.
class ModelsOfMakes final : public ForwardedDataset {
 public:
  explicit ModelsOfMakes(std::int64_t absent)
      : ForwardedDataset(std::make_shared<CaptionedImages>(60)), absent_(absent) {}
  DatasetDescription describe() const override {
    DatasetDescription data = inner_->describe();
    data.captions.clear();
    for (const char* make : {"red", "green", "blue"}) {
      for (const char* model : {"one", "two", "three"})
        data.captions.push_back(std::string("a photo of a ") + make + " " + model + ".");
    }
    return data;
  }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override {
    auto sample = inner_->sample(epoch, index);
    sample->set("caption", torch::tensor(caption(index)));
    return sample;
  }
  std::vector<std::int64_t> captions() const override {
    std::vector<std::int64_t> all;
    for (std::int64_t index = 0; index < inner_->describe().size; ++index)
      all.push_back(caption(index));
    return all;
  }
  std::vector<std::vector<std::int64_t>> captions_of_classes() const override {
    return {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}};
  }

 private:
  std::int64_t caption(std::int64_t index) const {
    return index % 3 * 3 + (absent_ + 1 + index / 3 % 2) % 3;
  }
  const std::int64_t absent_;
};

TEST_F(ZeroShot, WithinAClassImagesAreComparedWithEveryCaption) {
  std::int64_t lost = 0;  // images with a nearest caption that no image has
  for (std::int64_t absent = 0; absent < 3; ++absent) {
    data_ = std::make_shared<ModelsOfMakes>(absent);
    const nlohmann::json within =
        run(kEvaluateZeroShot, {{"within_class", true}, {"top_k", {1, 2, 5}}})["within_class"];
    const torch::NoGradGuard no_graph;
    const at::Tensor products = images().matmul(texts(data_->describe().captions).t());
    std::vector<std::int64_t> before_own(
        3);  // how many captions of its class rank before an image's own
    for (std::int64_t i = 0; i < 60; ++i) {
      const NamedTensors sample = *data_->sample(0, i);
      const at::Tensor logits =
          checkpoint_->model
              ->forward(*checkpoint_->network,
                        {{"image", sample.at("image").unsqueeze(0).to(here().device())}})
              .at("logits");
      const std::int64_t label = sample.at("label").item<std::int64_t>();
      if (logits.argmax(1).item<std::int64_t>() != label) continue;
      const std::int64_t own = sample.at("caption").item<std::int64_t>();
      std::int64_t before = 0;
      for (std::int64_t other = 3 * label; other < 3 * label + 3; ++other)
        before += products[i][other].item<double>() > products[i][own].item<double>() ? 1 : 0;
      ++before_own[static_cast<std::size_t>(before)];
      lost += products[i].slice(0, 3 * label, 3 * label + 3).argmax().item<std::int64_t>() == absent
                  ? 1
                  : 0;
    }
    const std::int64_t right = before_own[0] + before_own[1] + before_own[2];
    const auto share = [&](std::int64_t count) {
      return static_cast<double>(count) / static_cast<double>(right);
    };
    EXPECT_EQ(within["images"], right);
    EXPECT_NEAR(within["accuracy"].get<double>(), share(before_own[0]), 1e-12);
    EXPECT_NEAR(within["top2"].get<double>(), share(before_own[0] + before_own[1]), 1e-12);
    EXPECT_EQ(within["top5"], 1);
  }
  EXPECT_GT(lost, 0);
}

TEST_F(ZeroShot, NeedsNoMoreMemoryThanPlanned) {
  for (const bool within_class : {false, true}) {
    PlanningContext planning;
    stage(kEvaluateZeroShot, {{"within_class", within_class}})->plan(inputs(), planning);
    EXPECT_GT(planning.planned.value().needed, 0);
  }
}

TEST_F(ZeroShot, TemplateWithoutANameAndModelWithoutATextTowerAreRejected) {
  EXPECT_REFUSED(created(kEvaluateZeroShot, R"({"templates": ["a photo"]})"), kOptionConflict,
                 "/evaluate/templates", "\'a photo\'");
  checkpoint_->model =
      model_of(kModelClipVision, Json::parse(R"({"hidden_size": 8, "intermediate_size": 16,
      "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 4})"));
  EXPECT_REFUSED(refusal(kEvaluateZeroShot), kOptionConflict, "", "text");
}

}  // namespace
}  // namespace stages
