#include "stages/worker/small_training.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/dataset.h"
#include "stages/machine/counting_allocator.h"
#include "stages/memory/policy.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/random/dropout.h"
#include "stages/train/classification_loss.h"
#include "stages/train/trainer.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

class SmallData final : public Dataset {
 public:
  static constexpr std::int64_t kSize = 16;
  DatasetDescription describe() const override {
    return {.size = kSize,
            .tensors = {{"image", {4}, torch::kFloat}, {"label", {}, torch::kLong}},
            .classes = {"a", "b", "c"}};
  }
  std::optional<NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    return NamedTensors{{"image", all_[index]}, {"label", torch::tensor(index % 3)}};
  }
  std::string sample_name(std::int64_t index) const override { return std::to_string(index); }
  LoaderOptions loader() const override { return {}; }

 private:
  const at::Tensor all_ = sines({kSize, 4}, 2.1);
};

/// A run in a folder that is removed along with this object.
class QuietContext final : public runner::RunContext {
 public:
  QuietContext() : RunContext({.seed = 7, .device = "cpu"}) {
    std::string name = std::filesystem::temp_directory_path() / "retort-XXXXXX";
    if (!mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), name);
    node_.folder = name;
  }
  ~QuietContext() override {
    std::error_code ignored;
    std::filesystem::remove_all(node_.folder, ignored);
  }
  void metric(std::string_view, double, std::int64_t) override {}
  void progress(const runner::Progress& progress) override {
    if (on_step) on_step(progress.step);
  }
  void say(std::string_view) override {}
  bool canceled() const override { return false; }

  std::function<void(std::int64_t)> on_step;
};

}  // namespace

at::Tensor sines(at::IntArrayRef shape, double pace) {
  return (torch::arange(c10::multiply_integers(shape), torch::kFloat) * pace).sin().reshape(shape);
}

class SmallNetwork::Block : public RecomputableModule {
 public:
  Block() {
    weight_ = register_parameter("weight", sines({16, 4}, 0.7));
    dropout_ = register_module("dropout", std::make_shared<Dropout>(0.2));
  }
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override {
    const OwnPrecision own(*this);
    return dropout_->forward(own(x).matmul(weight_.t()).tanh());
  }

  at::Tensor weight_;
  std::shared_ptr<Dropout> dropout_;
};

SmallNetwork::SmallNetwork() {
  block_ = register_module("block", std::make_shared<Block>());
  last_ = register_parameter("last", sines({3, 16}, 1.3));
}

at::Tensor SmallNetwork::forward(const at::Tensor& x) const {
  return block_->forward(x).matmul(last_.t());
}

NamedTensors SmallStep::encode(torch::nn::Module& network, const Batch& part) const {
  return {{"logits", dynamic_cast<SmallNetwork&>(network).forward(part["image"])}};
}

NamedTensors SmallStep::loss(const NamedTensors& encoded, const Batch& part) const {
  const at::Tensor& logits = encoded.at("logits");
  if (covariance_) return {{"loss", covariance_loss(logits, *covariance_) * weight(part)}};
  if (!is_coupled_) return {{"loss", cross_entropy_sum(logits, part["label"], 0)}};
  return {{"loss", logits.matmul(logits.t()).logsumexp(1).sum()}};
}

struct SmallTraining::State {
  TrainerOptions options;
  QuietContext context;
  const std::shared_ptr<SmallNetwork> network = std::make_shared<SmallNetwork>();
};

SmallTraining::SmallTraining() : state_(std::make_unique<State>()) {
  TrainerOptions& options = state_->options;
  options.epochs = 1;
  options.batch_size = SmallData::kSize / 2;
  options.optimizer = SgdOptions{.learning_rate = 0.1, .momentum = 0.9};
  options.keep = Keep::kLast;
  options.monitor = "loss";
}

SmallTraining::~SmallTraining() = default;

void SmallTraining::run(std::int64_t refused, std::int64_t replays,
                        std::function<void(std::int64_t)> on_step) {
  MemoryPolicy policy;
  policy.recovery.max_retries = replays;
  state_->context.on_step = std::move(on_step);
  SmallStep step(false);
  step.before_step = [&, steps = 0]() mutable {
    if (++steps == 2) CountingAllocator::innermost()->refuse(refused);
  };
  train(step, *state_->network, {std::make_shared<SmallData>(), nullptr}, state_->options, policy,
        state_->context);
}

at::Tensor SmallTraining::weights() const {
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : stages::weights(*state_->network))
    all.push_back(tensor.detach().flatten().clone());
  return torch::cat(all);
}

}  // namespace stages
