#include "stages/worker/embed.h"

#include <stdexcept>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/episode_set.h"
#include "stages/artifact/loader.h"
#include "stages/data/images_to_predict.h"
#include "stages/numerics/prepared_network.h"
#include "stages/worker/embedding_files.h"
#include "stages/worker/image_request.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

/// Returns the embeddings of the images in `inputs`, as float32 of shape (n, width).
at::Tensor embedded(const Checkpoint& checkpoint, torch::nn::Module& network,
                    const NamedTensors& inputs) {
  const NamedTensors outputs = checkpoint.model->forward(network, {{"image", inputs.at("image")}});
  for (const char* name : {"image_embeddings", "features"}) {
    if (outputs.contains(name) && outputs.at(name).dim() == 2)
      return outputs.at(name).to(at::kFloat);
  }
  throw StageError(ErrorCode::kOptionConflict,
                   "the network returns no image embeddings: it has no output 'image_embeddings' "
                   "or 'features' of shape (n, width)")
      .at(checkpoint.model_stage)
      .with_help(
          "make the Python network return {'logits': …, 'features': …}, or embed with another "
          "network");
}

void check_network(const Checkpoint& checkpoint) {
  if (!episode_shape({.tensors = checkpoint.inputs})) return;
  throw StageError(ErrorCode::kOptionConflict,
                   "this few-shot network embeds whole episodes, not single images")
      .at(checkpoint.model_stage)
      .with_help("embed with the run of a classifier or CLIP model");
}

/// Runs the network on all images, and reports those that cannot be read.
EmbeddedImages embed_all(const ImageRequest& opened,
                         const std::shared_ptr<const ImagesToPredict>& pictures,
                         std::int64_t batch_size, const RequestContext& context) {
  const Checkpoint& checkpoint = *opened.checkpoint;
  const auto say = [&](std::string_view line) { context.say(line); };
  const PreparedNetwork network(*checkpoint.network,
                                choose_numerics(checkpoint.numerics, *checkpoint.network,
                                                checkpoint.model_stage, opened.device, say),
                                opened.device);
  const std::int64_t size = pictures->describe().size;
  Loader loader(pictures, SampleOrder::sequential(size), batch_size, /*epoch=*/0);
  const PassProgress progress("embed", size);
  EmbeddedImages all;
  for (;;) {
    if (context.canceled()) throw runner::Canceled{};
    const std::optional<Batch> batch = loader.next();
    if (!batch) break;
    const ScopedInference inference(network);
    const at::Tensor rows =
        embedded(checkpoint, network.module(), network.placed(*batch).tensors()).cpu();
    if (!all.rows.defined()) all.rows = at::empty({size, rows.size(1)}, rows.options());
    for (std::int64_t row = 0; row < batch->units(); ++row) {
      const std::int64_t image = batch->indices[static_cast<std::size_t>(row)];
      if (!rows[row].isfinite().all().item<bool>()) {
        throw StageError(ErrorCode::kStageFailed,
                         "the network returned a non-finite embedding for '" +
                             pictures->sample_name(image) + "'")
            .with_help("the weights are damaged, or training diverged: check train/loss");
      }
      all.rows[static_cast<std::int64_t>(all.names.size())].copy_(rows[row]);
      all.names.push_back(pictures->sample_name(image));
    }
    const std::int64_t done = batch->indices.back() + 1;
    context.progress(progress.after(done, done));
  }
  for (std::int64_t image = 0; image < size; ++image) {
    const auto unreadable = pictures->take_unreadable(image);
    if (!unreadable) continue;
    ++all.failed;
    context.item({{"file", pictures->sample_name(image)},
                  {"code", runner::name(unreadable->code)},
                  {"message", unreadable->message}});
  }
  if (all.names.empty()) {
    throw StageError(ErrorCode::kTooFewSamples, "none of the images can be read")
        .with_help("see the errors for the images");
  }
  all.rows = all.rows.narrow(0, 0, static_cast<std::int64_t>(all.names.size()));
  return all;
}

}  // namespace

runner::Result<Json> answer_embed(const Json& request, const RequestContext& context) {
  const auto fields = request_fields(
      request, {"graph", "node", "checkpoints", "model", "paths", "queries", "batch_size",
                "neighbors", "similarity", "skip_corrupt", "out", "plan_for"});
  const std::int64_t batch_size = fields.integer("batch_size");
  const bool skip = fields.flag("skip_corrupt");
  const LikenessOptions options{fields.integer("neighbors"), fields.number("similarity")};
  if (batch_size < 1 || options.neighbors < 1)
    throw std::runtime_error("embed: batch_size and neighbors must be at least 1");
  auto opened = open_image_request(request, context);
  if (!opened) return opened.errors();
  if (!opened->checkpoint) return Json{{"needed", 0}};
  const Checkpoint& checkpoint = *opened->checkpoint;
  check_network(checkpoint);
  const auto pictures_of = [&](std::vector<std::string> files) {
    return std::make_shared<const ImagesToPredict>(std::move(files), opened->transform, skip);
  };
  const auto pictures = pictures_of(opened->files);
  if (request.contains("plan_for"))
    return Json{{"needed", planned_bytes(checkpoint, *pictures, batch_size, fields.text("plan_for"),
                                         [&](auto& network, const NamedTensors& inputs) {
                                           return embedded(checkpoint, network, inputs);
                                         })}};
  std::vector<std::string> query_files;
  if (const auto wanted = fields.texts("queries"); !wanted.empty()) {
    auto found = list_images(wanted);
    if (!found) return found.errors();
    query_files = std::move(found->files);
  }
  const EmbeddedImages images = embed_all(*opened, pictures, batch_size, context);
  EmbeddedImages queries;
  if (!query_files.empty())
    queries = embed_all(*opened, pictures_of(std::move(query_files)), batch_size, context);
  Json answer = write_embeddings(images, queries, options, fields.text("out"), context);
  if (!checkpoint.weights.empty()) answer["weights"] = checkpoint.weights;
  return answer;
}

}  // namespace stages
