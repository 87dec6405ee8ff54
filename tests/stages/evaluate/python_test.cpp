#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/stages.h"
#include "tests/support/fake_python.h"
#include "tests/support/forwarded_dataset.h"
#include "tests/support/on_test_device.h"
#include "tests/support/planning_context.h"
#include "tests/support/program.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

/// The points of TinyDataset, each with two values to predict.
class Measured final : public Dataset {
 public:
  DatasetDescription describe() const override {
    DatasetDescription description = points_.describe();
    description.tensors.push_back({"sizes", {2}, torch::kFloat});
    return description;
  }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override {
    auto sample = points_.sample(epoch, index);
    sample->set("sizes", torch::tensor({0.5, static_cast<double>(index)}, torch::kFloat));
    return sample;
  }
  std::string sample_name(std::int64_t index) const override { return points_.sample_name(index); }
  LoaderOptions loader() const override { return {}; }

 private:
  const TinyDataset points_{6};
};

/// An evaluation by a fake Python function.
class PythonEvaluation : public testing::Test {
 protected:
  PythonEvaluation() {
    const auto model = std::make_shared<TinyModel>();
    checkpoint_->model = model;
    checkpoint_->network = on_test_device(model->build(data_->describe(), 1));
    checkpoint_->network->eval();
    checkpoint_->classes = data_->describe().classes;
    checkpoint_->step = 8;
    python_.measure = [](const Json&, const at::Tensor&, const at::Tensor&) {
      return Json::array({Json::array({"mae", 0.25}), Json::array({"r2", 1})});
    };
  }

  auto run(const std::string& options = "") {
    const auto stage =
        stage_of(kEvaluatePython, R"({"entry": "my.py:measure", "batch_size": 4)" + options + "}");
    const runner::Inputs inputs({{"test", {data_}}, {"checkpoint", {checkpoint_}}});
    PlanningContext planning;
    stage->plan(inputs, planning);
    const runner::Outputs outputs = stage->run(inputs, context_);
    return runner::Inputs({{"metrics", {outputs.at("metrics")}}}).get<Metrics>("metrics")->values;
  }

  FakePython python_;
  std::shared_ptr<Measured> data_ = std::make_shared<Measured>();
  std::shared_ptr<Checkpoint> checkpoint_ = std::make_shared<Checkpoint>();
  RecordingContext context_;
};

TEST_F(PythonEvaluation, PythonMetricsAreRecorded) {
  EXPECT_THAT(run(), ElementsAre(Pair("mae", 0.25), Pair("r2", 1.0)));
  EXPECT_EQ(context_.values("evaluate/mae"), std::vector<double>{0.25});
  EXPECT_EQ(context_.steps("evaluate/r2"), std::vector<std::int64_t>{8});
  EXPECT_THAT(context_.said, testing::Contains("mae 0.25, r2 1"));
  const Json written = Json::parse(file_text(context_.node().folder / "metrics.json"));
  EXPECT_EQ(written.at("metrics"), Json({{"mae", 0.25}, {"r2", 1.0}}));
}

TEST_F(PythonEvaluation, FunctionReceivesOutputsTargetsAndNames) {
  python_.measure = [](const Json& request, const at::Tensor& outputs, const at::Tensor& targets) {
    EXPECT_EQ(request.at("entry"), "my.py:measure");
    EXPECT_EQ(request.at("arguments"), Json({{"power", 2}}));
    EXPECT_THAT(request.at("classes"), ElementsAre("class0", "class1", "class2"));
    EXPECT_EQ(request.at("names").at(5), "point5");
    EXPECT_EQ(outputs.sizes(), (std::vector<std::int64_t>{6, 3}));
    EXPECT_EQ(outputs.scalar_type(), at::kFloat);
    EXPECT_TRUE(targets.equal(torch::tensor({0, 1, 2, 0, 1, 2})));
    return Json::array({Json::array({"one", 1})});
  };
  run(R"(, "arguments": {"power": 2})");
}

TEST_F(PythonEvaluation, TargetMayBeAnyTensorOfTheSamples) {
  python_.measure = [](const Json&, const at::Tensor&, const at::Tensor& targets) {
    EXPECT_EQ(targets.sizes(), (std::vector<std::int64_t>{6, 2}));
    EXPECT_EQ(targets[3][1].item<float>(), 3);
    return Json::array({Json::array({"one", 1})});
  };
  run(R"(, "target": "sizes")");
  EXPECT_THAT(file_text(context_.node().folder / "predictions.csv"),
              HasSubstr("name,target_0,target_1,output_0,output_1,output_2\npoint0,0.5,0,"));
  EXPECT_REFUSED(run(R"(, "target": "weight")"), kOptionConflict, "/target", "no tensor 'weight'",
                 "image, label or sizes");
}

TEST_F(PythonEvaluation, MissingNetworkOutputIsRejected) {
  EXPECT_REFUSED(run(R"(, "output": "boxes")"), kOptionConflict, "/output", "no output 'boxes'",
                 "logits");
}

TEST_F(PythonEvaluation, ClassesAreNumberedAsInTraining) {
  checkpoint_->classes = {"class2", "class1", "class0"};
  python_.measure = [](const Json&, const at::Tensor&, const at::Tensor& targets) {
    EXPECT_TRUE(targets.equal(torch::tensor({2, 1, 0, 2, 1, 0})));
    return Json::array({Json::array({"one", 1})});
  };
  run();
}

TEST_F(PythonEvaluation, PythonFailureIsReportedAtItsEntry) {
  python_.measure = [](const Json&, const at::Tensor&, const at::Tensor&) -> Json {
    throw std::runtime_error("KeyError: 'a' (my.py:3)");
  };
  EXPECT_REFUSED(run(), kStageFailed, "/entry", "KeyError: 'a' (my.py:3)", "Python's traceback");
}

}  // namespace
}  // namespace stages
