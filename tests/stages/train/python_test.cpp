#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/fitted_decision.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/python/python_step.h"
#include "stages/stages.h"
#include "tests/support/fake_python.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using Tensors = NamedTensors;
using testing::HasSubstr;
using testing::SizeIs;

at::Tensor entropies(const Tensors& encoded, const Tensors& batch) {
  return at::cross_entropy_loss(encoded.at("logits"), batch.at("label"), {}, at::Reduction::None);
}

/// A training run with a fake Python loss.
class PythonTraining : public testing::Test {
 protected:
  PythonTraining() { python_.loss = entropies; }

  static std::string options(const std::string& more = "") {
    return R"({"entry": "my_step.py:Step", "epochs": 2, "batch_size": 8)" +
           (more.empty() ? R"(, "coupling": "per_sample")" : ", " + more) + "}";
  }
  runner::Inputs inputs() const {
    runner::Inputs::ByPort inputs = {
        {"model", {model_}}, {"memory", {policy_}}, {"train", {train_}}};
    if (validation_) inputs["validation"] = {validation_};
    return runner::Inputs(inputs, {{"model", "model"}});
  }
  void run(const std::string& more = "") {
    const auto stage = stage_of(kTrainPython, options(more));
    PlanningContext planning;
    stage->plan(inputs(), planning);
    stage->run(inputs(), context_);
  }
  runner::Certificate certificate(const std::string& more) const {
    PlanningContext planning;
    planning.asked.wants_certificate = true;
    stage_of(kTrainPython, options(more))->plan(inputs(), planning);
    return planning.certified.value();
  }

  FakePython python_;
  std::shared_ptr<TinyDataset> train_ = std::make_shared<TinyDataset>(30),
                               validation_ = std::make_shared<TinyDataset>(12);
  std::shared_ptr<TinyModel> model_ = std::make_shared<TinyModel>();
  std::shared_ptr<MemoryPolicy> policy_ = std::make_shared<MemoryPolicy>();
  RecordingContext context_;
};

TEST_F(PythonTraining, PerSampleLossTrainsLikeSupervisedTraining) {
  run();
  RecordingContext ours;
  stage_of(kTrainSupervised, R"({"epochs": 2, "batch_size": 8})")->run(inputs(), ours);
  const auto losses = context_.values("validation/loss"), expected = ours.values("validation/loss");
  ASSERT_THAT(losses, SizeIs(2));
  ASSERT_THAT(expected, SizeIs(2));
  EXPECT_NEAR(losses[1], expected[1], 1e-5 * expected[1]);
}

TEST_F(PythonTraining, ScoresAreMeansOverSamples) {
  python_.score = [](const Tensors& encoded, const Tensors& batch) -> Tensors {
    return {{"accuracy", encoded.at("logits").argmax(1).eq(batch.at("label"))}};
  };
  run(R"("coupling": "per_sample", "monitor": "accuracy")");
  RecordingContext ours;
  stage_of(kTrainSupervised, R"({"epochs": 2, "batch_size": 8})")->run(inputs(), ours);
  EXPECT_EQ(context_.values("validation/accuracy"), ours.values("validation/accuracy"));
}

constexpr const char* kCalibration =
    R"("calibration": {"temperature": true, "cut_points": false, "sensitivity": null})";

TEST_F(PythonTraining, CalibrationMatchesSupervisedTraining) {
  const auto decision = [&](const runner::StageKind& kind, const std::string& written) {
    RecordingContext context;
    const runner::Outputs outputs = stage_of(kind, written)->run(inputs(), context);
    return decision_of(*runner::Inputs({{"checkpoint", {outputs.at("checkpoint")}}})
                            .get<Checkpoint>("checkpoint"));
  };
  const double temperature =
      decision(kTrainPython, options(std::string(R"("coupling": "per_sample", )") + kCalibration))
          .temperature;
  const double expected =
      decision(kTrainSupervised,
               std::string(R"({"epochs": 2, "batch_size": 8, )") + kCalibration + "}")
          .temperature;
  EXPECT_NE(temperature, 1);
  EXPECT_NEAR(temperature, expected, 1e-3 * expected);
  EXPECT_EQ(decision(kTrainPython, options()).temperature, 1);
}

TEST_F(PythonTraining, CalibrationNeedsLogits) {
  python_.encode = [](const Tensors& batch) -> Tensors {
    const auto [names, outputs] = run_encoded_network({"image"}, {batch.at("image")});
    return {{"scores", outputs.front()}};
  };
  python_.loss = [](const Tensors& encoded, const Tensors& batch) {
    return entropies({{"logits", encoded.at("scores")}}, batch);
  };
  const std::string more = std::string(R"("coupling": "per_sample", )") + kCalibration;
  EXPECT_REFUSED(run(more), kOptionConflict, "/calibration", "'logits'");
  validation_ = nullptr;
  EXPECT_REFUSED(run(more), kTooFewSamples, "/calibration", "validation data");
}

TEST_F(PythonTraining, EncodeRunsTheBuiltInNetwork) {
  python_.encode = [](const Tensors& batch) -> Tensors {
    auto [names, outputs] = run_encoded_network({"image"}, {batch.at("image") * 2});
    EXPECT_EQ(names, std::vector<std::string>{"logits"});
    return {{"logits", outputs.front()}};
  };
  EXPECT_LT(certificate(R"("coupling": "per_sample")").worst(), runner::Certificate::kLimit);
  run();
  EXPECT_THAT(context_.values("validation/loss"), SizeIs(2));
}

TEST_F(PythonTraining, SamplesWithoutClassesCanBeTrained) {
  /// Points, each with a value to predict.
  class Estimated final : public Dataset {
   public:
    DatasetDescription describe() const override {
      return {.size = 12, .tensors = {{"image", {2}, torch::kFloat}, {"size", {}, torch::kFloat}}};
    }
    std::optional<NamedTensors> sample(std::int64_t, std::int64_t index) const override {
      const auto size = static_cast<float>(index);
      return NamedTensors{{"image", torch::full({2}, size)}, {"size", torch::tensor(size)}};
    }
    std::string sample_name(std::int64_t index) const override { return std::to_string(index); }
    LoaderOptions loader() const override { return {}; }
  };
  /// A linear layer with one output.
  class OneOutput final : public Model {
   public:
    std::shared_ptr<torch::nn::Module> build(const DatasetDescription&,
                                             std::uint64_t seed) const override {
      torch::manual_seed(seed);
      return std::make_shared<TinyLinear>(2, 1, at::kCPU);
    }
    std::shared_ptr<torch::nn::Module> outline(const DatasetDescription&) const override {
      return std::make_shared<TinyLinear>(2, 1, at::kMeta);
    }
    NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
      return {{"logits", dynamic_cast<TinyLinear&>(network).forward(inputs.at("image"))}};
    }
    bool mixes_samples() const override { return false; }
  };
  python_.loss = [](const Tensors& encoded, const Tensors& batch) {
    return (encoded.at("logits").squeeze(1) - batch.at("size")).square();
  };
  const auto data = std::make_shared<Estimated>();
  const runner::Inputs inputs({{"model", {std::make_shared<OneOutput>()}},
                               {"memory", {policy_}},
                               {"train", {data}},
                               {"validation", {data}}},
                              {{"model", "model"}});
  stage_of(kTrainPython, options())->run(inputs, context_);
  const auto losses = context_.values("validation/loss");
  ASSERT_THAT(losses, SizeIs(2));
  EXPECT_LT(losses[1], losses[0]);
}

TEST_F(PythonTraining, NetworkRunsOnlyWithinEncode) {
  EXPECT_THROW(run_encoded_network({"image"}, {torch::zeros({1, 2})}), c10::Error);
}

TEST_F(PythonTraining, LossShapeMustMatchItsCoupling) {
  python_.loss = [](const Tensors& encoded, const Tensors& batch) {
    return entropies(encoded, batch).mean();
  };
  EXPECT_REFUSED(run(), kStageFailed, "/entry", "loss() of my_step.py:Step", "shape () for 8",
                 "per_sample", "reduction='none'");
  python_.loss = entropies;
  EXPECT_REFUSED(run(R"("coupling": "whole_batch")"), kStageFailed, "/entry", "shape (8)",
                 "one number for the batch");
  EXPECT_REFUSED(run(R"("coupling": "per_group", "samples_in_group": 4)"), kStageFailed, "/entry",
                 "8 samples in groups of 4", "one number per group");
}

TEST_F(PythonTraining, UntrainableLossIsRejected) {
  python_.loss = [](const Tensors& encoded, const Tensors& batch) {
    return entropies(encoded, batch).detach();
  };
  EXPECT_REFUSED(run(), kStageFailed, "/entry", "no gradient");
  python_.loss = [](const Tensors& encoded, const Tensors& batch) {
    return encoded.at("logits").argmax(1).ne(batch.at("label"));
  };
  EXPECT_REFUSED(run(), kStageFailed, "/entry", "type Bool");
  python_.loss = entropies;
  python_.encode = [](const Tensors& batch) -> Tensors {
    const torch::NoGradGuard no_graph;
    return {{"logits", std::get<1>(run_encoded_network({"image"}, {batch.at("image")})).front()}};
  };
  EXPECT_REFUSED(run(), kStageFailed, "/entry", "encode() of my_step.py:Step",
                 "no tensor that has");
}

TEST_F(PythonTraining, ChangedBatchIsRejected) {
  python_.loss = [](const Tensors& encoded, const Tensors& batch) {
    batch.at("image").add_(1);
    return entropies(encoded, batch);
  };
  EXPECT_REFUSED(run(), kStageFailed, "/entry", "changes its argument 'image'", "x.add_(1)");
}

TEST_F(PythonTraining, MonitoredScoreMustExist) {
  EXPECT_REFUSED(run(R"("coupling": "per_sample", "monitor": "mae")"), kOptionConflict, "/monitor",
                 "has no method score");
  python_.score = [](const Tensors& encoded, const Tensors& batch) -> Tensors {
    return {{"entropy", entropies(encoded, batch)}};
  };
  EXPECT_REFUSED(run(R"("coupling": "per_sample", "monitor": "mae")"), kOptionConflict, "/monitor",
                 "'mae'", "returned 'entropy'");
}

TEST_F(PythonTraining, UnrecordableScoreIsRejected) {
  for (const std::string name : {"loss", "epoch_mean", "a/b", ""}) {
    python_.score = [&](const Tensors& encoded, const Tensors& batch) -> Tensors {
      return {{name, entropies(encoded, batch)}};
    };
    EXPECT_REFUSED(run(), kStageFailed, "/entry", "'" + name + "'", "letters, digits");
  }
  python_.score = [](const Tensors& encoded, const Tensors& batch) -> Tensors {
    return {{"mean", entropies(encoded, batch).mean()}};
  };
  EXPECT_REFUSED(run(), kStageFailed, "/entry", "shape () as 'mean' for 8 samples");
}

TEST_F(PythonTraining, DifferentScoreNamesInALaterBatchAreRejected) {
  int calls = 0;
  python_.score = [&](const Tensors& encoded, const Tensors& batch) -> Tensors {
    return {{++calls > 1 ? "late" : "early", entropies(encoded, batch)}};
  };
  EXPECT_REFUSED(run(), kStageFailed, "/entry", "returned 'late' after 'early'");
}

TEST_F(PythonTraining, LowerScoreIsBetterIfConfigured) {
  validation_ = std::make_shared<TinyDataset>(12);
  int validations = 0;
  python_.score = [&](const Tensors& encoded, const Tensors& batch) -> Tensors {
    const bool is_validation = batch.at("label").size(0) == 4 && !encoded.at("logits").is_meta();
    if (is_validation) ++validations;
    return {{"error", torch::full_like(entropies(encoded, batch), validations)}};
  };
  const auto epoch_kept = [&](const std::string& better) {
    validations = 0;
    const auto stage = stage_of(
        kTrainPython, R"({"entry": "a.py:b", "coupling": "per_sample", "epochs": 3, "batch_size": 5,
                          "monitor": "error", "better": ")" +
                          better + "\"}");
    RecordingContext context;
    validation_ = std::make_shared<TinyDataset>(4);
    const runner::Outputs outputs = stage->run(inputs(), context);
    return runner::Inputs({{"checkpoint", {outputs.at("checkpoint")}}})
        .get<Checkpoint>("checkpoint")
        ->epoch;
  };
  EXPECT_EQ(epoch_kept("lower"), 1);
  EXPECT_EQ(epoch_kept("higher"), 3);
  EXPECT_EQ(epoch_kept("auto"), 3);
}

TEST_F(PythonTraining, CorrectCouplingsAreCertified) {
  const auto exact = [&](const std::string& more) {
    const runner::Certificate found = certificate(more);
    EXPECT_EQ(found.refused, "");
    EXPECT_THAT(found.compared, HasSubstr("micro_batch 2"));
    EXPECT_TRUE(found.changed.empty());
    return found.worst();
  };
  // The plan keeps the batch whole; still, the recipe's declaration is not a proof.
  EXPECT_LT(exact(R"("coupling": "per_sample")"), runner::Certificate::kLimit);
  const auto spread = [](const at::Tensor& losses) {
    return (losses - losses.mean()).square().mean();
  };
  python_.loss = [&](const Tensors& encoded, const Tensors& batch) {
    std::vector<at::Tensor> groups;
    const at::Tensor losses = entropies(encoded, batch);
    for (std::int64_t begin = 0; begin < losses.size(0); begin += 2)
      groups.push_back(spread(losses.slice(0, begin, begin + 2)));
    return torch::stack(groups);
  };
  EXPECT_LT(exact(R"("coupling": "per_group", "samples_in_group": 2)"),
            runner::Certificate::kLimit);
  python_.loss = [&](const Tensors& encoded, const Tensors& batch) {
    return spread(entropies(encoded, batch));
  };
  policy_->pointer = "/memory";
  policy_->micro_batch = 2;
  policy_->two_pass = true;
  EXPECT_LT(exact(R"("coupling": "whole_batch")"), runner::Certificate::kLimit);
}

TEST_F(PythonTraining, GroupsAreWeightedBySamples) {
  run();
  const std::vector<double> of_samples = context_.values("validation/loss");
  python_.loss = [](const Tensors& encoded, const Tensors& batch) {
    std::vector<at::Tensor> means;
    for (const at::Tensor& group : entropies(encoded, batch).split(5))
      means.push_back(group.mean());
    return torch::stack(means);
  };
  RecordingContext of_groups;
  stage_of(kTrainPython, options(R"("coupling": "per_group", "samples_in_group": 5)"))
      ->run(inputs(), of_groups);
  ASSERT_THAT(of_groups.values("validation/loss"), SizeIs(2));
  EXPECT_NEAR(of_groups.values("validation/loss")[1], of_samples[1], 1e-5 * of_samples[1]);
}

TEST_F(PythonTraining, CertificateDetectsAFalseCoupling) {
  python_.loss = [](const Tensors& encoded, const Tensors& batch) {
    const at::Tensor losses = entropies(encoded, batch);
    return (losses - losses.mean()).square();
  };
  EXPECT_GT(certificate(R"("coupling": "per_sample")").worst(), 1e-3);
}

TEST_F(PythonTraining, LossInFloat32CannotBeCertified) {
  python_.loss = [](const Tensors& encoded, const Tensors& batch) {
    return entropies(encoded, batch).to(at::kFloat);
  };
  EXPECT_THAT(certificate(R"("coupling": "per_sample")").refused,
              HasSubstr("computes in Float although its input is float64"));
}

TEST_F(PythonTraining, PythonFailureIsReportedAtItsEntry) {
  python_.loss = [](const Tensors&, const Tensors&) -> at::Tensor {
    throw std::runtime_error("ValueError: no (my_step.py:7)");
  };
  EXPECT_REFUSED(run(), kStageFailed, "/entry", "ValueError: no (my_step.py:7)",
                 "Python's traceback");
}

TEST_F(PythonTraining, LabelOutsideTheClassesIsRejected) {
  train_->relabeled = {{3, 7}};
  EXPECT_REFUSED(run(), kLabelOutOfRange, "", "'point3'", "label 7", "3 classes");
}

}  // namespace
}  // namespace stages
