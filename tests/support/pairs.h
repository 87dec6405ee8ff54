#pragma once

#include <torch/nn/functional/normalization.h>
#include <torch/types.h>

#include "tests/support/gradients.h"

/// Brings two views of each sample nearer to each other than to views of different samples;
/// "Learning transferable visual models from natural language supervision", Radford et al. 2021,
/// with a learned temperature.
class ContrastiveStep final : public TinyStep {
 public:
  explicit ContrastiveStep(DroppingNet& net) {
    coupling = stages::Coupling::kWholeBatch;
    temperature = net.register_parameter("temperature", torch::full({}, 1.5, torch::kDouble));
  }
  stages::NamedTensors encode(torch::nn::Module& network,
                              const stages::Batch& part) const override {
    const auto embed = [&](const char* name) {
      const stages::ScopedInput input(network, name);
      const at::Tensor embedding = dynamic_cast<DroppingNet&>(network).forward(part[name]);
      return uses_generator ? torch::dropout(embedding, 0.4, true) : embedding;
    };
    stages::NamedTensors encoded{{"image", embed("image")}, {"view", embed("view")}};
    if (encodes_temperature) encoded.set("temperature", temperature.exp());
    return encoded;
  }
  stages::NamedTensors loss(const stages::NamedTensors& encoded,
                            const stages::Batch& part) const override {
    const auto unit = [&](const char* name) {
      return torch::nn::functional::normalize(encoded.at(name));
    };
    const at::Tensor factor = encodes_temperature ? encoded.at("temperature") : temperature.exp();
    const at::Tensor products = unit("image").matmul(unit("view").t()) * factor;
    const at::Tensor labels = torch::arange(part.units(), products.options().dtype(torch::kLong));
    const auto sum = [&](const at::Tensor& logits) {
      return torch::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
    };
    return {{"cross_entropy", (sum(products) + sum(products.t())) / 2}};
  }
  stages::NamedTensors score(const stages::NamedTensors& encoded,
                             const stages::Batch& part) const override {
    return {{"matches", encoded.at("image")
                            .matmul(encoded.at("view").t())
                            .argmax(1)
                            .eq(torch::arange(encoded.at("view").size(0),
                                              part["view"].options().dtype(torch::kLong)))
                            .sum()}};
  }

  at::Tensor temperature;
  bool encodes_temperature =
      false;                    // as a scalar next to the embeddings; otherwise loss() reads it
  bool uses_generator = false;  // dropout from torch's own generator, which is not replayed
};

/// Ten samples, each with a view near it.
inline stages::Batch ten_pairs() {
  stages::NamedTensors tensors = ten_samples().tensors();
  tensors.set("view", tensors.at("image") + 0.3 * torch::randn({10, 2}, torch::kDouble));
  return stages::Batch(tensors, 10);
}
