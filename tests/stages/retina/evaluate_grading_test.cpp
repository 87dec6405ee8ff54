#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/stages.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// A network whose logits are the numbers of its "image".
class EchoModel final : public Model {
 public:
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription&,
                                           std::uint64_t) const override {
    return std::make_shared<torch::nn::Module>();
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
    return build(data, 0);
  }
  NamedTensors forward(torch::nn::Module&, const NamedTensors& inputs) const override {
    return {{"logits", inputs.at("image")}};
  }
  bool mixes_samples() const override { return false; }
};

/// A sample for each grade that is given, whose logits are 3 for what is predicted.
class GradedRows final : public Dataset {
 public:
  explicit GradedRows(std::vector<std::pair<std::int64_t, std::int64_t>> rows)
      : rows_(std::move(rows)) {}
  DatasetDescription describe() const override {
    return {std::ssize(rows_),
            {{"image", {3}, at::kFloat}, {"label", {}, at::kLong}},
            {"none", "mild", "severe"}};
  }
  std::optional<NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    const auto [grade, predicted] = rows_[static_cast<std::size_t>(index)];
    at::Tensor logits = torch::zeros({3});
    logits[predicted] = 3;
    return NamedTensors{{"image", logits}, {"label", torch::tensor(grade)}};
  }
  std::string sample_name(std::int64_t index) const override {
    return "eye" + std::to_string(index);
  }
  LoaderOptions loader() const override { return {}; }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> grades;
    for (const auto& [grade, predicted] : rows_) grades.push_back(grade);
    return grades;
  }

 private:
  const std::vector<std::pair<std::int64_t, std::int64_t>> rows_;
};

struct GradingRun {
  GradingRun() {
    network->model = std::make_shared<EchoModel>();
    network->classes = {"none", "mild", "severe"};
    network->network = network->model->build({}, 0);
  }
  json operator()(const std::string& options = "{}") {
    const runner::Value value = stage_options("evaluate/grading", options);
    runner::ConfigReader reader(value, "/evaluate");
    auto stage = kEvaluateGrading.create(reader);
    if (!stage) throw std::logic_error(stage.errors()[0].message);
    const auto test =
        std::make_shared<GradedRows>(std::vector<std::pair<std::int64_t, std::int64_t>>{
            {0, 0}, {0, 0}, {1, 0}, {1, 1}, {2, 2}, {2, 0}});
    (*stage)->run(runner::Inputs({{"test", {test}}, {"checkpoint", {network}}}), context);
    return json::parse(file("metrics.json"));
  }
  std::string file(const std::string& name) const {
    std::ifstream stream(context.node().folder / name);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }
  std::string refusal(const std::string& options = "{}") {
    try {
      (*this)(options);
    } catch (const runner::StageError& error) {
      return error.what();
    }
    return "";
  }

  std::shared_ptr<Checkpoint> network = std::make_shared<Checkpoint>();
  RecordingContext context;
};

TEST(Grading, WeighsAMistakeByTheSquareOfItsGrades) {
  GradingRun run;
  const json record = run();
  EXPECT_EQ(record.at("confusion_matrix"), json::parse("[[2,0,0],[1,1,0],[1,0,1]]"));
  const json numbers = record.at("grading").at("numbers");
  // Observed (1 + 4) / 6 of a unit, expected (2·(1 + 4) + 2·(4 + 1) + 2·(16 + 1)) / 36: 1 - 30
  // / 54.
  EXPECT_NEAR(numbers.at("quadratic_kappa").get<double>(), 1 - 30.0 / 54, 1e-12);
  EXPECT_EQ(numbers.at("sensitivity/severe"), 0.5);
  EXPECT_EQ(numbers.at("specificity/none"), 0.5);
  EXPECT_EQ(run.context.values("evaluate/quadratic_kappa").size(), 1u);
}

TEST(Grading, EachSampleHasALine) {
  GradingRun run;
  run();
  EXPECT_THAT(
      run.file("predictions.csv"),
      testing::StartsWith("name,grade,prediction,p_none,p_mild,p_severe\neye0,none,none,0.9"));
  EXPECT_THAT(run.file("predictions.csv"), HasSubstr("\neye5,severe,none,0.9"));
  GradingRun without;
  without(R"({"csv": false})");
  EXPECT_EQ(without.file("predictions.csv"), "");
}

TEST(Grading, NetworkOfTwoClassesIsRefused) {
  GradingRun run;
  run.network->pair_of = 3;
  EXPECT_EQ(run.refusal(), "the network distinguishes two classes by one logit");
}

TEST(Grading, GradeThatNobodyHasCannotBeReferable) {
  GradingRun run;
  EXPECT_THAT(run.refusal(R"({"referable_from": 3})"), HasSubstr("referable_from"));
}

}  // namespace
}  // namespace stages
