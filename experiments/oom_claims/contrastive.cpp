#include "experiments/oom_claims/contrastive.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "experiments/oom_claims/exactness.h"
#include "stages/random/dropout.h"

namespace oom_claims {
namespace {

class TwoTowers final : public torch::nn::Module {
 public:
  TwoTowers() {
    const at::TensorOptions options(torch::kDouble);
    image_ = register_module("image", small_tower(0.1).make(options));
    caption_ = register_module("caption", small_tower(0.1).make(options));
  }
  at::Tensor embed(const stages::Batch& part, const std::string& input) {
    const stages::ScopedInput scope(*this, input);
    return (input == "image" ? image_ : caption_)->logits(part[input]);
  }

 private:
  std::shared_ptr<ImageNetwork> image_, caption_;
};

}  // namespace

std::shared_ptr<torch::nn::Module> two_towers() {
  auto network = std::make_shared<TwoTowers>();
  draw_weights(*network, 2);
  network->train();
  return network;
}

stages::Batch random_pairs(std::int64_t pairs) {
  const at::Tensor all = random_images(2 * pairs)["image"];
  return stages::Batch({{"image", all.slice(0, 0, pairs)}, {"caption", all.slice(0, pairs)}},
                       pairs);
}

stages::NamedTensors ContrastiveStep::encode(torch::nn::Module& network,
                                             const stages::Batch& part) const {
  auto& towers = dynamic_cast<TwoTowers&>(network);
  return {{"image", towers.embed(part, "image")}, {"caption", towers.embed(part, "caption")}};
}

stages::NamedTensors ContrastiveStep::loss(const stages::NamedTensors& encoded,
                                           const stages::Batch& part) const {
  const auto unit = [&](const char* input) {
    const at::Tensor& embedding = encoded.at(input);
    return embedding / embedding.norm(2, 1, true);
  };
  const at::Tensor similarity = unit("image").matmul(unit("caption").t()) / 0.07;
  const at::Tensor own = torch::arange(similarity.size(0));
  const at::Tensor loss = (torch::cross_entropy_loss(similarity, own) +
                           torch::cross_entropy_loss(similarity.t(), own)) /
                          2;
  return {{"contrastive", loss * weight(part)}};
}

}  // namespace oom_claims
