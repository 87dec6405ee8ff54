#include "stages/evaluate/text_classes.h"

#include <algorithm>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/class_captions.h"
#include "stages/numerics/precision_map.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

at::Tensor at_least_float(const at::Tensor& x) {
  return x.to(at::promote_types(x.scalar_type(), at::kFloat));
}

}  // namespace

at::Tensor text_logits(const at::Tensor& images, const at::Tensor& texts,
                       const at::Tensor& logit_scale) {
  const ScopedPrecision full(Precision::kFp32, images.device());
  return at_least_float(images).matmul(at_least_float(texts).t()) *
         at_least_float(logit_scale).exp();
}

const ImageTextModel& text_model_of(const Checkpoint& checkpoint) {
  const auto* const model = dynamic_cast<const ImageTextModel*>(checkpoint.model.get());
  if (!model) {
    throw StageError(ErrorCode::kOptionConflict, "the model does not take text as input")
        .with_help(
            "evaluate a model.clip model, or evaluate this one with evaluate.classification");
  }
  return *model;
}

TextRows::TextRows(const Checkpoint& checkpoint, const std::vector<std::string>& texts)
    : model_(*checkpoint.model) {
  const TokenizedTexts rows = text_model_of(checkpoint).tokenized(texts);
  tokens_ = rows.ids.narrow(1, 0, *std::ranges::max_element(rows.lengths));
}

at::Tensor TextRows::embeddings(torch::nn::Module& network, at::Device device,
                                std::int64_t at_once) const {
  std::vector<at::Tensor> parts;
  for (std::int64_t begin = 0; begin < tokens_.size(0); begin += at_once) {
    const at::Tensor part = tokens_.slice(0, begin, begin + at_once).contiguous().to(device);
    parts.push_back(model_.forward(network, {{"tokens", part}}).at("text_embeddings"));
  }
  return torch::cat(parts);
}

at::Tensor TextLabels::logits(torch::nn::Module& network, const at::Tensor& pixels) {
  const bool is_seen = embeddings_.defined() && embeddings_.device() == pixels.device();
  if (!is_seen)
    embeddings_ =
        texts_.embeddings(network, pixels.device(), std::max<std::int64_t>(1, pixels.size(0)));
  const NamedTensors seen = model_.forward(network, {{"image", pixels}});
  return text_logits(seen.at("image_embeddings"), embeddings_, seen.at("logit_scale"));
}

TextClasses::TextClasses(const Checkpoint& checkpoint, const std::vector<std::string>& names,
                         const std::vector<std::string>& templates)
    : templates_(static_cast<std::int64_t>(templates.size())),
      texts_(checkpoint, texts_of_classes(names, templates)) {}

at::Tensor TextClasses::embeddings(torch::nn::Module& network, at::Device device,
                                   std::int64_t at_once) const {
  return class_embeddings(texts_.embeddings(network, device, at_once), templates_);
}

}  // namespace stages
