// Checks that a training run, its micro-batches and its validation follow the policy.

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/train/classification_loss.h"
#include "stages/train/trainer.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "tests/support/convolutional_networks.h"
#include "tests/support/forwarded_dataset.h"
#include "tests/support/listening_network.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::Each, testing::IsEmpty, testing::SizeIs;

/// Cross-entropy of a network's output for "image". Records the layout of the images.
class ForwardStep final : public TrainingStep {
 public:
  using Forward = std::function<at::Tensor(torch::nn::Module&, const at::Tensor&)>;
  explicit ForwardStep(Forward forward) : forward_(std::move(forward)) {}

  std::vector<LossTerm> terms() const override { return {{"cross_entropy", Coupling::kPerSample}}; }
  bool mixes_samples() const override { return false; }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    images.push_back(part["image"]);
    tf32.push_back(at::globalContext().allowTF32CuDNN() && at::globalContext().allowTF32CuBLAS());
    return {{"logits", forward_(network, part["image"])}};
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    logits.push_back(encoded.at("logits").scalar_type());
    return {{"cross_entropy", cross_entropy_sum(encoded.at("logits"), part["label"], 0)}};
  }

  mutable std::vector<at::Tensor> images;
  mutable std::vector<bool> tf32;
  mutable std::vector<at::ScalarType> logits;

 private:
  const Forward forward_;
};

/// The points of TinyDataset as images of 16×16 pixels; a point determines the color of its image.
class TinyImages final : public ForwardedDataset {
 public:
  TinyImages() : ForwardedDataset(std::make_shared<TinyDataset>(24)) {}
  DatasetDescription describe() const override {
    DatasetDescription description = inner_->describe();
    description.tensors[0].shape = {3, 16, 16};
    return description;
  }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override {
    NamedTensors sample = *inner_->sample(epoch, index);
    const at::Tensor colors = torch::cat({sample.at("image"), torch::ones(1)});
    const at::Tensor pattern =
        torch::sin(torch::arange(256, at::kFloat) * static_cast<double>(1 + index)).view({16, 16});
    sample.set("image", colors.view({3, 1, 1}) * pattern);
    return sample;
  }
};

struct OneTraining {
  ForwardStep step;
  std::shared_ptr<const Dataset> data;
  MemoryPolicy policy;
  TrainerOptions options = tiny_options();
  RecordingContext context;

  OneTraining(ForwardStep::Forward forward, std::shared_ptr<const Dataset> data)
      : step(std::move(forward)), data(std::move(data)) {
    options.epochs = 2;
    std::get<AdamOptions>(options.optimizer).learning_rate = 0.01;
    policy.pointer = "/memory";
  }
  TrainingResult run(torch::nn::Module& network) {
    return train(step, network, {data, data}, options, policy, context);
  }
};

OneTraining listening() {
  return OneTraining(
      [](auto& network, const auto& x) {
        return dynamic_cast<ListeningNetwork&>(network).forward(x);
      },
      std::make_shared<TinyDataset>(24));
}
OneTraining convolving() {
  return OneTraining(
      [](auto& network, const auto& x) {
        return dynamic_cast<torch::nn::SequentialImpl&>(network).forward(x);
      },
      std::make_shared<TinyImages>());
}

TEST(TrainerNumerics, ModulesUseTheirPrecisionInTrainingAndValidation) {
  OneTraining training = listening();
  training.policy.precision = {Precision::kBf16, {{"model.head", Precision::kFp32}}};
  training.policy.micro_batch = 3;
  ListeningNetwork network;
  training.run(network);
  const std::size_t parts = 2 * (3 * 3 + 8);  // three batches per epoch, and its validation
  EXPECT_THAT(network.first->out, SizeIs(parts));
  EXPECT_THAT(network.first->out, Each(at::kBFloat16));
  EXPECT_THAT(network.head->out, SizeIs(parts));
  EXPECT_THAT(network.head->out, Each(at::kFloat));
  EXPECT_THAT(network.head->in, Each(at::kFloat));
}

TEST(TrainerNumerics, LossIsInFullPrecisionIfEverythingElseIs) {
  OneTraining training = listening();
  training.policy.precision = {Precision::kFp32, {{"model.head", Precision::kBf16}}};
  ListeningNetwork network;
  training.run(network);
  EXPECT_THAT(network.head->out, Each(at::kBFloat16));
  EXPECT_THAT(training.step.logits, Each(at::kFloat));
}

TEST(TrainerNumerics, OneModuleInFp16ScalesTheLoss) {
  OneTraining training = listening();
  training.policy.precision = {Precision::kBf16, {{"model.trunk.second", Precision::kFp16}}};
  ListeningNetwork network;
  training.run(network);
  EXPECT_THAT(training.context.values("train/loss_scale"), SizeIs(6));
  EXPECT_THAT(network.second->out, Each(at::kHalf));
  EXPECT_THAT(network.head->out, Each(at::kBFloat16));
}

TEST(TrainerNumerics, UnknownModuleStopsBeforeTheFirstStep) {
  OneTraining training = listening();
  training.policy.precision = {Precision::kBf16, {{"model.haed", Precision::kFp32}}};
  ListeningNetwork network;
  EXPECT_REFUSED(training.run(network), kUnknownKey, "/memory/precision/model.haed");
  EXPECT_THAT(network.first->out, IsEmpty());
}

TEST(TrainerNumerics, Tf32AppliesOnlyDuringTraining) {
  OneTraining training = listening();
  training.policy.tf32 = true;
  ListeningNetwork network;
  const bool before = at::globalContext().allowTF32CuDNN();
  training.run(network);
  EXPECT_THAT(training.step.tf32, Each(true));
  EXPECT_EQ(at::globalContext().allowTF32CuDNN(), before);
  OneTraining other = listening();
  other.run(network);
  EXPECT_THAT(other.step.tf32, Each(false));
}

TEST(TrainerNumerics, LayoutFollowsTheRuleAndChangesOnlyRounding) {
  at::Tensor result[2];
  for (const bool plain : {true, false}) {
    OneTraining training = convolving();
    if (plain) training.policy.layout = Layout::kContiguous;
    training.policy.micro_batch = 5;
    training.options.optimizer = SgdOptions{.learning_rate = 0.05, .momentum = 0.9};
    const auto network = conv4();
    const TrainingResult trained = training.run(*network);
    const auto lies_so = [&](const at::Tensor& tensor) {
      return tensor.is_contiguous(plain ? at::MemoryFormat::Contiguous
                                        : at::MemoryFormat::ChannelsLast);
    };
    for (const at::Tensor& image : training.step.images) EXPECT_TRUE(lies_so(image));
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : weights(*network)) {
      if (tensor.dim() == 4) EXPECT_TRUE(lies_so(tensor)) << name;
      if (tensor.is_floating_point()) all.push_back(tensor.detach().flatten());
    }
    result[plain] = torch::cat(all);
    // The file has the trained weights, regardless of their layout in memory.
    for (const auto& [name, tensor] : read_safetensors(trained.file).tensors)
      EXPECT_EQ(tensor.sizes(), weights(*network).at(name).sizes());
  }
  EXPECT_LT((result[0] - result[1]).norm().item<double>(), 1e-3 * result[1].norm().item<double>());
}

}  // namespace
}  // namespace stages
