#include <cmath>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "tests/support/listening_network.h"
#include "tests/support/number_rows.h"
#include "tests/support/on_test_device.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Runs a ListeningNetwork on the first two numbers of the "image".
class ListeningModel final : public Model {
 public:
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription&,
                                           std::uint64_t) const override {
    return std::make_shared<ListeningNetwork>();
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
    return build(data, 0);
  }
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
    tf32.push_back(at::globalContext().allowTF32CuBLAS());
    return {{"logits",
             dynamic_cast<ListeningNetwork&>(network).forward(inputs.at("image").slice(1, 0, 2))}};
  }
  bool mixes_samples() const override { return false; }

  mutable std::vector<bool> tf32;
};

const std::vector<std::string> kFlowers = {"daisy", "rose", "tulip"};

at::Tensor four_samples() {
  return torch::tensor({{3.0, 0.0, 0.0}, {0.0, 3.0, 0.0}, {0.0, 3.0, 0.0}, {0.0, 0.0, 3.0}},
                       at::kFloat);
}

std::shared_ptr<NumberRows> flowers() {
  return std::make_shared<NumberRows>(four_samples(), std::vector<std::int64_t>{0, 1, 2, 2},
                                      kFlowers);
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Classification : public testing::Test {
 protected:
  Classification() {
    const auto network = echo_->build({}, 0);
    network->train();
    checkpoint_->network = network;
    checkpoint_->model = echo_;
    checkpoint_->classes = kFlowers;
    checkpoint_->epoch = 2;
    checkpoint_->step = 40;
  }

  runner::Outputs run(const std::shared_ptr<const Dataset>& test,
                      const std::string& options = "{}") {
    const auto stage = created(kEvaluateClassification, options);
    EXPECT_TRUE(stage);
    runner::Inputs::ByPort ports = {{"test", {test}}, {"checkpoint", {checkpoint_}}};
    if (memory_) ports["memory"] = {memory_};
    return (*stage)->run(runner::Inputs(std::move(ports)), context_);
  }

  /// Returns the plan for a budget.
  runner::MemoryPlan plan(const std::shared_ptr<const Dataset>& test, std::int64_t batch_size,
                          std::int64_t budget) {
    const auto stage =
        created(kEvaluateClassification, R"({"batch_size": )" + std::to_string(batch_size) + "}");
    PlanningContext planning;
    runner::Inputs::ByPort inputs = {{"test", {test}}, {"checkpoint", {checkpoint_}}};
    if (memory_) inputs["memory"] = {memory_};
    planning.asked.budget = {"a test", budget};
    (*stage)->plan(runner::Inputs(inputs), planning);
    return planning.planned.value();
  }

  /// Returns "E0606 message | help" for the error that the run throws.
  runner::Diagnostics refusal(const std::shared_ptr<const Dataset>& test,
                              const std::string& options = "{}") {
    return refusals_of([&] { run(test, options); });
  }

  const std::shared_ptr<EchoModel> echo_ = std::make_shared<EchoModel>();
  const std::shared_ptr<Checkpoint> checkpoint_ = std::make_shared<Checkpoint>();
  std::shared_ptr<MemoryPolicy> memory_;
  RecordingContext context_;
};

TEST_F(Classification, ClassAndSampleNamesAreNotUsedAsFileNames) {
  const std::vector<std::string> hostile = {"../../up", "/tmp/evil.json", "metrics.json"};
  checkpoint_->classes = hostile;
  run(std::make_shared<NumberRows>(four_samples(), std::vector<std::int64_t>{0, 1, 2, 2}, hostile));
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(context_.node().folder))
    files.insert(entry.path().lexically_relative(context_.node().folder));
  EXPECT_THAT(files, testing::IsSubsetOf({"metrics.json", "evaluation_results.json", "curves.json",
                                          "report.txt", "confusion_matrix.csv", "predictions.csv",
                                          "suspected_labels.csv"}));
  EXPECT_EQ(nlohmann::json::parse(
                contents(context_.node().folder / "metrics.json"))["per_class"][0]["class"],
            "../../up");
}

TEST_F(Classification, MemoryPolicySetsHowTheNetworkRuns) {
  const auto network = on_test_device(std::make_shared<ListeningNetwork>());
  const auto model = std::make_shared<ListeningModel>();
  checkpoint_->network = network;
  checkpoint_->model = model;
  checkpoint_->model_stage = "student";
  memory_ = std::make_shared<MemoryPolicy>();
  memory_->precision = {Precision::kBf16, {{"student.trunk.second", Precision::kFp32}}};
  memory_->tf32 = true;
  run(flowers());
  EXPECT_THAT(network->formats(), ElementsAre(at::kBFloat16, at::kFloat, at::kBFloat16));
  EXPECT_THAT(model->tf32, testing::Each(true));
  EXPECT_THAT(
      context_.said,
      testing::Contains("tf32 has no effect on a CPU: it computes float32 products in float32"));
  memory_ = nullptr;
  run(flowers());
  EXPECT_THAT(network->formats(), ElementsAre(at::kFloat, at::kFloat, at::kFloat));
}

TEST_F(Classification, SamplesWithAnotherShapeThanInTrainingAreRejected) {
  checkpoint_->inputs = {{"image", {4}, at::kFloat}};
  EXPECT_REFUSED(refusal(flowers()), kOptionConflict, "", "[3]", "[4]");
}

TEST_F(Classification, SamplesPreparedDifferentlyFromTrainingAreReported) {
  checkpoint_->transform = "{}";
  run(flowers());
  EXPECT_THAT(
      context_.said,
      testing::Contains(
          "the test set is preprocessed differently from the training data:  now, {} then"));
}

TEST_F(Classification, ReportsTheResultNextToChance) {
  run(flowers(), R"({"top_k": [1, 2]})");
  EXPECT_THAT(context_.said, ElementsAre("top-1 75.0 % (95 % interval 30.1–95.4 %), mean per class "
                                         "83.3 %, chance 33.3 %, 4 images"));
}

TEST_F(Classification, ReportsOmittedTopK) {
  run(flowers());
  EXPECT_EQ(context_.said.front(), "top-5 is left out: with 3 classes it is 100 % by definition");
}

TEST_F(Classification, MetricsAreRecordedInOrderAtTheCheckpointStep) {
  const auto outputs = run(flowers());
  const auto metrics = std::static_pointer_cast<const Metrics>(outputs.at("metrics"));
  ASSERT_EQ(metrics->values.size(), context_.metrics.size());
  for (std::size_t i = 0; i < metrics->values.size(); ++i) {
    EXPECT_EQ(context_.metrics[i],
              std::tuple("evaluate/" + metrics->values[i].first, metrics->values[i].second, 40));
  }
  EXPECT_EQ(metrics->values.front(), std::pair(std::string("top1"), 0.75));
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics->values) names.push_back(name);
  EXPECT_THAT(std::vector(names.end() - 4, names.end()),
              ElementsAre("samples", "auc_macro", "auc_micro", "calibration_error"));
}

TEST_F(Classification, PredictionsAreProbabilitiesByName) {
  const auto outputs = run(flowers());
  const auto predictions = std::static_pointer_cast<const Predictions>(outputs.at("predictions"));
  EXPECT_THAT(predictions->names, ElementsAre("image0", "image1", "image2", "image3"));
  EXPECT_EQ(predictions->classes, kFlowers);
  EXPECT_TRUE(predictions->labels.equal(torch::tensor({0, 1, 2, 2})));
  EXPECT_EQ(predictions->scores.scalar_type(), at::kFloat);
  EXPECT_TRUE(predictions->scores.allclose(four_samples().softmax(1)));
}

TEST_F(Classification, WritesItsFiles) {
  run(flowers());
  const auto json =
      nlohmann::ordered_json::parse(contents(context_.node().folder / "metrics.json"));
  EXPECT_EQ(json.at("epoch"), 2);
  EXPECT_EQ(json.at("step"), 40);
  EXPECT_EQ(json.at("top1"), 0.75);
  EXPECT_EQ(json.at("smoke"), false);
  EXPECT_EQ(json.at("skipped"), 0);
  EXPECT_EQ(contents(context_.node().folder / "confusion_matrix.csv"),
            "label,daisy,rose,tulip\ndaisy,1,0,0\nrose,0,1,0\ntulip,0,1,1\n");
  EXPECT_THAT(contents(context_.node().folder / "predictions.csv"),
              HasSubstr("\nimage2,tulip,rose,false,0.9"));
  EXPECT_THAT(contents(context_.node().folder / "report.txt"),
              HasSubstr("weighted avg       0.88"));
}

TEST_F(Classification, WritesResultsUnderThePublishedNames) {
  run(flowers());
  const auto results =
      nlohmann::ordered_json::parse(contents(context_.node().folder / "evaluation_results.json"));
  std::vector<std::string> names;
  for (const auto& [name, value] : results.items()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("test_loss", "test_accuracy", "predictions", "labels",
                                 "confusion_matrix", "classification_report"));
  EXPECT_NEAR(results.at("test_loss"), std::log(1 + 2 * std::exp(-3.0)) + 3.0 / 4, 1e-6);
  EXPECT_EQ(results.at("test_accuracy"), 0.75);
  EXPECT_EQ(results.at("predictions").dump(), "[0,1,1,2]");
  EXPECT_EQ(results.at("labels").dump(), "[0,1,2,2]");
  EXPECT_EQ(results.at("confusion_matrix").dump(), "[[1,0,0],[0,1,0],[0,1,1]]");
  EXPECT_EQ(results.at("classification_report").at("tulip").dump(),
            R"({"precision":1.0,"recall":0.5,"f1-score":0.6666666666666666,"support":2.0})");
}

TEST_F(Classification, WritesItsCurves) {
  run(flowers());
  const auto curves = nlohmann::json::parse(contents(context_.node().folder / "curves.json"));
  EXPECT_EQ(curves.at("roc").at("classes").size(), 3u);
  EXPECT_EQ(curves.at("roc").at("classes").at(2).at("class"), "tulip");
  EXPECT_EQ(curves.at("calibration").at("bins").size(), 15u);
  const auto metrics = nlohmann::json::parse(contents(context_.node().folder / "metrics.json"));
  EXPECT_EQ(metrics.at("auc_macro"), curves.at("roc").at("auc_macro"));
  EXPECT_EQ(metrics.at("calibration_error"), curves.at("calibration").at("error"));
}

TEST_F(Classification, StoredTemperatureCalibratesProbabilities) {
  checkpoint_->validation = {{"loss", 1}, {"temperature", 2.0}};
  const auto outputs = run(flowers());
  const auto predictions = std::static_pointer_cast<const Predictions>(outputs.at("predictions"));
  EXPECT_TRUE(predictions->scores.allclose((four_samples() / 2).softmax(1)));
  const auto metrics =
      nlohmann::ordered_json::parse(contents(context_.node().folder / "metrics.json"));
  EXPECT_EQ(metrics.at("temperature"), 2);
  EXPECT_EQ(metrics.at("top1"), 0.75);
  EXPECT_NEAR(metrics.at("log_loss"), std::log(1 + 2 * std::exp(-1.5)) + 1.5 / 4, 1e-6);
  EXPECT_NEAR(metrics.at("log_loss_uncalibrated"), std::log(1 + 2 * std::exp(-3.0)) + 3.0 / 4,
              1e-6);
  EXPECT_NEAR(metrics.at("calibration_error_uncalibrated"), 1 / (1 + 2 * std::exp(-3.0)) - 0.75,
              1e-6);
  EXPECT_EQ(context_.values("evaluate/temperature").size(), 1u);
  EXPECT_THAT(context_.said,
              testing::Contains("logits are divided by the temperature 2.0000, which was fitted on "
                                "the validation data"));
  run(flowers(), R"({"temperature": 1})");
  EXPECT_EQ(context_.values("evaluate/temperature").size(), 1u);
}

TEST_F(Classification, ThresholdDecidesBetweenTwoClasses) {
  checkpoint_->classes = {"well", "ill"};
  const auto samples = std::make_shared<NumberRows>(
      torch::tensor({{0.0, -1.0}, {0.0, -3.0}, {0.0, -1.0}, {0.0, 1.0}}, at::kFloat),
      std::vector<std::int64_t>{0, 0, 1, 1}, checkpoint_->classes);
  run(samples, R"({"threshold": 0.25})");
  EXPECT_THAT(context_.values("evaluate/sensitivity"), ElementsAre(1));
  EXPECT_THAT(context_.values("evaluate/specificity"), ElementsAre(0.5));
  EXPECT_THAT(context_.values("evaluate/top1"), ElementsAre(0.75));
  EXPECT_THAT(contents(context_.node().folder / "predictions.csv"),
              HasSubstr("\nimage0,well,ill,false,0.26"));
  checkpoint_->validation = {{"decision_threshold", 0.5}};
  run(samples);
  EXPECT_THAT(context_.values("evaluate/sensitivity"), ElementsAre(1, 0.5));
}

TEST_F(Classification, ThresholdBetweenThreeClassesIsRejected) {
  EXPECT_REFUSED(refusal(flowers(), R"({"threshold": 0.25})"), kOptionConflict, "/threshold",
                 "two classes", "has 3");
}

TEST_F(Classification, PredictionsCsvIsOptional) {
  run(flowers(), R"({"csv": false})");
  EXPECT_FALSE(std::filesystem::exists(context_.node().folder / "predictions.csv"));
  EXPECT_TRUE(std::filesystem::exists(context_.node().folder / "confusion_matrix.csv"));
}

TEST_F(Classification, NonUtf8ClassNamesAreStillWritten) {
  checkpoint_->classes = {"d\xE9j\xE0", "rose", "tulip"};
  run(std::make_shared<NumberRows>(four_samples(), std::vector<std::int64_t>{0, 1, 2, 2},
                                   checkpoint_->classes));
  const auto json = nlohmann::json::parse(contents(context_.node().folder / "metrics.json"));
  EXPECT_EQ(json.at("per_class").at(0).at("class"), "d\uFFFDj\uFFFD");
  const auto results =
      nlohmann::json::parse(contents(context_.node().folder / "evaluation_results.json"));
  EXPECT_TRUE(results.at("classification_report").contains("d\uFFFDj\uFFFD"));
  EXPECT_EQ(nlohmann::json::parse(contents(context_.node().folder / "curves.json"))
                .at("roc")
                .at("classes")
                .at(0)
                .at("class"),
            "d\uFFFDj\uFFFD");
}

TEST_F(Classification, RunsInEvalModeWithoutAGraph) {
  run(flowers());
  EXPECT_FALSE(echo_->was_training);
  EXPECT_FALSE(echo_->had_graph);
}

TEST_F(Classification, MicroBatchLimitsTheBatch) {
  const auto memory = std::make_shared<MemoryPolicy>();
  memory->micro_batch = 3;
  memory_ = memory;
  run(flowers());
  EXPECT_THAT(echo_->batches, ElementsAre(3, 1));
}

TEST_F(Classification, BatchSizeBelowTheMicroBatchIsUsed) {
  const auto memory = std::make_shared<MemoryPolicy>();
  memory->micro_batch = 64;
  memory_ = memory;
  run(flowers(), R"({"batch_size": 2})");
  EXPECT_THAT(echo_->batches, ElementsAre(2, 2));
}

TEST_F(Classification, ProgressIsReportedAtEveryBatch) {
  run(flowers(), R"({"batch_size": 3})");
  ASSERT_EQ(context_.all_progress.size(), 2u);
  EXPECT_EQ(context_.all_progress[1].phase, "evaluate");
  EXPECT_EQ(context_.all_progress[1].step, 2);
  EXPECT_EQ(context_.all_progress[1].steps, 2);
}

TEST_F(Classification, SmokeRunReadsTwoBatches) {
  context_.facts.smoke = true;
  const auto test = flowers();
  run(test, R"({"batch_size": 1})");
  EXPECT_THAT(test->read, ElementsAre(0, 1));
  EXPECT_EQ(nlohmann::json::parse(contents(context_.node().folder / "metrics.json")).at("smoke"),
            true);
}

TEST_F(Classification, CancellingStopsBeforeTheNextBatch) {
  context_.on_progress = [&](const runner::Progress&) { context_.is_cancelled = true; };
  EXPECT_THROW(run(flowers(), R"({"batch_size": 1})"), runner::Cancelled);
  EXPECT_THAT(echo_->batches, ElementsAre(1));
  EXPECT_TRUE(std::filesystem::is_empty(context_.node().folder));
}

TEST_F(Classification, SkippedSamplesAreCountedAndOthersKeepTheirNames) {
  const auto test = flowers();
  test->skipped = {1};
  const auto outputs = run(test);
  EXPECT_THAT(std::static_pointer_cast<const Predictions>(outputs.at("predictions"))->names,
              ElementsAre("image0", "image2", "image3"));
  EXPECT_THAT(context_.said,
              testing::Contains("1 samples were skipped because they could not be read"));
  EXPECT_EQ(nlohmann::json::parse(contents(context_.node().folder / "metrics.json")).at("skipped"),
            1);
}

TEST_F(Classification, SkippingEverySampleIsAnError) {
  const auto test = flowers();
  test->skipped = {0, 1, 2, 3};
  EXPECT_REFUSED(refusal(test), kTooFewSamples, "", "no readable samples");
}

TEST_F(Classification, EmptyTestSetIsAnError) {
  EXPECT_REFUSED(refusal(std::make_shared<NumberRows>(torch::zeros({0, 3}),
                                                      std::vector<std::int64_t>{}, kFlowers)),
                 kTooFewSamples, "", "~evaluate");
}

TEST_F(Classification, ClassesAreMatchedByNameInAnyOrder) {
  const std::vector<std::string> others = {"daisy", "tulip", "rose"};
  const auto outputs = run(
      std::make_shared<NumberRows>(four_samples(), std::vector<std::int64_t>{0, 2, 1, 1}, others));
  EXPECT_TRUE(std::static_pointer_cast<const Predictions>(outputs.at("predictions"))
                  ->labels.equal(torch::tensor({0, 1, 2, 2})));
}

TEST_F(Classification, AbsentClassesAreReportedAndNotMeasured) {
  const auto outputs = run(std::make_shared<NumberRows>(four_samples().slice(0, 1),
                                                        std::vector<std::int64_t>{1, 0, 0},
                                                        std::vector<std::string>{"tulip", "rose"}));
  EXPECT_THAT(context_.said, testing::Contains("1 of 3 classes is absent from the test set, and so "
                                               "left out of all means over classes: 'daisy'"));
  const auto json = nlohmann::json::parse(contents(context_.node().folder / "metrics.json"));
  EXPECT_DOUBLE_EQ(json["top1"], 2 / 3.0);
  EXPECT_DOUBLE_EQ(json["macro"]["recall"], (1 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(json["macro"]["precision"], (0.5 + 1) / 2);
  EXPECT_DOUBLE_EQ(json["mean_per_class"], (1 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(json["chance"], 1 / 3.0);
  EXPECT_EQ(json["per_class"][0]["support"], 0);
}

TEST_F(Classification, UnknownClassesAreRejectedWithSuggestions) {
  const auto with = [&](std::vector<std::string> classes) {
    return refusal(std::make_shared<NumberRows>(four_samples(),
                                                std::vector<std::int64_t>{0, 1, 2, 2}, classes));
  };
  EXPECT_REFUSED(with({"daisy", "roses", "tulip", "violet"}), kLabelOutOfRange, "",
                 "2 classes that", "'roses', 'violet'", "'rose' instead of 'roses'");
  EXPECT_REFUSED(with({"daisy", "rose", "tulip", "violet"}), kLabelOutOfRange, "", "1 class that",
                 "'violet'", "'daisy', 'rose', 'tulip'");
  EXPECT_REFUSED(with({"daisy", "rose", "rose"}), kLabelOutOfRange, "", "two classes", "'rose'");
}

TEST_F(Classification, LabelWithoutAnOutputIsRejectedWithItsSample) {
  EXPECT_REFUSED(refusal(std::make_shared<NumberRows>(
                     four_samples(), std::vector<std::int64_t>{0, 1, 3, 2}, kFlowers)),
                 kLabelOutOfRange, "", "'image2' has label 3");
}

TEST_F(Classification, DataWithoutLabelsIsRejected) {
  checkpoint_->classes = {};
  EXPECT_REFUSED(
      refusal(std::make_shared<NumberRows>(four_samples(), std::vector<std::int64_t>{0, 1, 2, 2},
                                           std::vector<std::string>{})),
      kLabelOutOfRange, "", "no labels");
}

TEST_F(Classification, FlippingNonImagesIsRejected) {
  EXPECT_REFUSED(refusal(flowers(), R"({"test_time_flip": "horizontal"})"), kOptionConflict,
                 "/test_time_flip", "test_time_flip");
}

TEST_F(Classification, LargestFittingBatchIsSuggested) {
  const auto large = std::make_shared<NumberRows>(torch::zeros({256, 20'000}),
                                                  std::vector<std::int64_t>(256), kFlowers);
  constexpr std::int64_t kEnough = std::int64_t{1} << 40;
  const std::int64_t of_8 = plan(large, 8, kEnough).needed, of_64 = plan(large, 64, kEnough).needed;
  ASSERT_LT(of_8, of_64);
  const runner::MemoryPlan found = plan(large, 64, (of_8 + of_64) / 2);
  ASSERT_EQ(found.alternatives.size(), 1u);
  const std::string text = found.alternatives[0].overrides.at(0), start = "evaluate.batch_size=";
  ASSERT_TRUE(text.starts_with(start)) << text;
  const std::int64_t size = std::stoll(text.substr(start.size()));
  EXPECT_TRUE(size >= 8 && size < 64) << text;
  EXPECT_TRUE(plan(large, size, (of_8 + of_64) / 2).fits());
  EXPECT_FALSE(plan(large, size + 1, (of_8 + of_64) / 2).fits());
  EXPECT_TRUE(plan(large, 64, kEnough).alternatives.empty());

  memory_ = std::make_shared<MemoryPolicy>();
  memory_->allow = Allow::kExact;
  const runner::MemoryPlan chosen = plan(large, 64, (of_8 + of_64) / 2);
  EXPECT_TRUE(chosen.fits());
  ASSERT_TRUE(chosen.choice);
  EXPECT_EQ(chosen.choice->overrides, std::vector{text});
  EXPECT_EQ(chosen.choice->summary, "batches of " + std::to_string(size) + " samples");
  EXPECT_EQ(chosen.choice->whole, found.needed);
  EXPECT_EQ(chosen.step.at("batch_size"), size);
}

TEST_F(Classification, PlanCountsLabelsAndCurvesOfAllSamples) {
  const auto data = std::make_shared<NumberRows>(torch::zeros({1000, 50}),
                                                 std::vector<std::int64_t>(1000), kFlowers);
  const runner::MemoryPlan found = plan(data, 8, std::int64_t{1} << 40);
  const auto metrics = std::ranges::find(found.terms, "metrics", &runner::NamedBytes::name);
  ASSERT_NE(metrics, found.terms.end());
  // Labels count twice; each pair has a probability, and a point on the curves of its class and of
  // all classes, which are sorted first.
  EXPECT_EQ(metrics->bytes, 2 * 8 * 1000 + 1000 * 50 * (8 + 16 + 16 + 16) + 50 * 16);
}

TEST_F(Classification, NanStopsTheRunAndReportsTheSample) {
  const at::Tensor logits = four_samples();
  logits[1][2] = std::nan("");
  EXPECT_REFUSED(refusal(std::make_shared<NumberRows>(logits, std::vector<std::int64_t>{0, 1, 2, 2},
                                                      kFlowers)),
                 kStageFailed, "", "image1");
  EXPECT_TRUE(std::filesystem::is_empty(context_.node().folder));
}

TEST_F(Classification, OutputsBeyondTheClassesAreNamedByNumber) {
  const at::Tensor logits = torch::eye(4).slice(0, 0, 4);
  const auto outputs =
      run(std::make_shared<NumberRows>(logits, std::vector<std::int64_t>{0, 1, 2, 2}, kFlowers));
  EXPECT_THAT(std::static_pointer_cast<const Predictions>(outputs.at("predictions"))->classes,
              ElementsAre("daisy", "rose", "tulip", "output 3"));
}

}  // namespace
}  // namespace stages
