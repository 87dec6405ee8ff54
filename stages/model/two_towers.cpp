#include "stages/model/two_towers.h"

#include <cmath>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/value/value.h"
#include "stages/model/layers.h"
#include "stages/tensor/shape_text.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

constexpr double kLargestLogitScale = 10;  // the limit of model.clip's logit_scale option

Json with_towers(Json request, const TowerOptions& options) {
  request["towers"] = {
      {"image", options.image}, {"text", options.text}, {"logit_scale", options.logit_scale}};
  if (options.logit_bias) request["towers"]["logit_bias"] = *options.logit_bias;
  if (options.class_head) request["towers"]["class_head"] = *options.class_head;
  return request;
}

StageError refusal_of_towers(const TowerOptions& options, const std::string& option,
                             const std::string& message) {
  return StageError(ErrorCode::kOptionConflict, message).at('/' + option).in_stage(options.pointer);
}

}  // namespace

TowerOptions read_tower_options(runner::ConfigReader& reader) {
  TowerOptions options{.pointer = reader.pointer()};
  reader.read("image", options.image);
  reader.read("text", options.text);
  reader.read("logit_scale", options.logit_scale);
  reader.read("logit_bias", options.logit_bias);
  reader.read("class_head", options.class_head);
  reader.read("maximum_logit_scale", options.maximum_logit_scale);
  runner::ConfigReader& tokenizer = reader.section("tokenizer");
  std::optional<std::string> entry, merges, vocabulary;
  tokenizer.read("entry", entry);
  const runner::Value* const arguments = tokenizer.raw("arguments");
  if (entry)
    options.python_tokenizer = {*entry, Json(runner::to_json(*arguments, /*hide_secrets=*/false))};
  tokenizer.read("merges", merges);
  tokenizer.read("vocabulary", vocabulary);
  if (merges) options.tokenizer.merges = *merges;
  if (vocabulary) options.tokenizer.vocabulary = *vocabulary;
  tokenizer.read("context_length", options.context.length);
  options.context.cuts =
      runner::choice<bool>(tokenizer, "too_long", {{"stop", false}, {"cut", true}});
  options.context.cutting_option = "model.towers.tokenizer.too_long";
  options.tokenizer.cleaning = runner::choice<TextCleaning>(
      tokenizer, "cleaning",
      {{"transformers", TextCleaning::kTransformers}, {"openai", TextCleaning::kOpenai}});
  options.fills_context =
      runner::choice<bool>(tokenizer, "padding", {{"context", true}, {"longest", false}});
  return options;
}

TwoTowers::TwoTowers(const Json& request, bool draws, Json description, TowerOptions options)
    : HostedNetwork(with_towers(request, options), draws, std::move(description)),
      options_(std::move(options)) {
  const Json& found = towers();
  const std::string network = "the network (" + found.value("network", "") + ")";
  const auto need_method = [&](const char* tower, const std::string& name, const char* input) {
    if (found.at(tower)) return;
    throw refusal_of_towers(options_, tower, network + " has no method '" + name + "'")
        .with_help("add one, def " + name + "(self, " + input + "), or set towers." + tower +
                   " to the method that embeds " + tower + "s");
  };
  need_method("image", options_.image, "image");
  need_method("text", options_.text, "tokens");
  if (options_.class_head && !found.at("class_head")) {
    throw refusal_of_towers(options_, "class_head",
                            network + " has no module or method '" + *options_.class_head + "'")
        .with_help("create it in the constructor, self." + *options_.class_head +
                   " = nn.Linear(width, num_classes), or set towers.class_head to the module or "
                   "method that turns image embeddings into logits");
  }
  logit_scale_ =
      parameter("logit_scale", options_.logit_scale,
                "create it in the constructor, as the logarithm of the factor that "
                "scales similarities: self.logit_scale = nn.Parameter(torch.tensor(2.6592)); "
                "train.learning_rate_factors.logit_scale=0 keeps it constant");
  if (options_.logit_bias) {
    logit_bias_ =
        parameter("logit_bias", *options_.logit_bias,
                  "create it in the constructor, as the number that the sigmoid loss "
                  "adds to similarities: self.logit_bias = nn.Parameter(torch.tensor(-10.0))");
  }
  check_scale();
}

/// Throws an error with `advice` if the network's attribute is not a one-element parameter.
at::Tensor TwoTowers::parameter(const std::string& option, const std::string& name,
                                const std::string& advice) const {
  const Json& found = towers().at(option);
  if (found.contains("name")) return named_parameters()[found.at("name").get<std::string>()];
  const std::string network = "the network (" + towers().value("network", "") + ")";
  const std::string instead = found.value("instead", "");
  throw refusal_of_towers(options_, option,
                          instead.empty() ? network + " has no parameter '" + name + "'"
                                          : "'" + name + "' of " + network + " is " + instead)
      .with_help(advice);
}

void TwoTowers::check_scale() const {
  if (!logit_scale_.is_cpu()) return;
  const double scale = logit_scale_.item<double>();
  if (std::isfinite(scale) && std::abs(scale) <= kLargestLogitScale) return;
  throw refusal_of_towers(options_, "logit_scale",
                          "the network's '" + options_.logit_scale + "' starts at " +
                              std::to_string(scale) + ", but it must be the logarithm of a factor")
      .with_help("start at a value from -10 to 10: CLIP's is 2.6592, the logarithm of 1 / 0.07");
}

at::Tensor TwoTowers::output_of(const std::string& tower, const at::Tensor& input) {
  try {
    return run_tower(tower, input);
  } catch (StageError& error) {
    if (!error.stage.empty()) throw;
    throw std::move(error).at('/' + tower).in_stage(options_.pointer);
  }
}

at::Tensor TwoTowers::classified(const at::Tensor& image_embeddings) {
  const at::Tensor logits = output_of("class_head", image_embeddings);
  if (logits.dim() == 2 && logits.is_floating_point()) return logits;
  throw refusal_of_towers(options_, "class_head",
                          "'" + *options_.class_head + "' returned logits of shape " +
                              shape_text(logits) + " and type " +
                              std::string(c10::toString(logits.scalar_type())))
      .with_help("return a floating-point number for each image and class: (" +
                 std::to_string(image_embeddings.size(0)) + ", classes)");
}

at::Tensor TwoTowers::embedded(const std::string& tower, const at::Tensor& input) {
  const at::Tensor output = output_of(tower, input);
  const std::string method = "'" + (tower == "image" ? options_.image : options_.text) + "'";
  const auto refuse = [&](const std::string& message, const std::string& help) {
    throw refusal_of_towers(options_, tower, message).with_help(help);
  };
  if (output.dim() != 2 || output.size(0) != input.size(0)) {
    refuse(method + " returned embeddings of shape " + shape_text(output) + " for " +
               std::to_string(input.size(0)) + ' ' + tower + 's',
           "return a row for each: (" + std::to_string(input.size(0)) + ", width)");
  }
  if (!output.is_floating_point()) {
    refuse(
        method + " returned embeddings of type " + std::string(c10::toString(output.scalar_type())),
        "return floating-point numbers");
  }
  widths_[tower] = output.size(1);
  const std::string other = tower == "image" ? "text" : "image";
  if (widths_.contains(other) && widths_[other] != output.size(1)) {
    refuse(method + " returned embeddings of width " + std::to_string(output.size(1)) +
               ", but embeddings of " + other + "s have width " + std::to_string(widths_[other]),
           "project both into the same space");
  }
  return with_unit_length(output);
}

NamedTensors TwoTowers::embed(const NamedTensors& inputs) {
  NamedTensors outputs;
  if (inputs.contains("image")) {
    const at::Tensor images = embedded("image", inputs.at("image"));
    outputs.set("image_embeddings", images);
    if (options_.class_head) outputs.set("logits", classified(images));
  }
  if (inputs.contains("tokens"))
    outputs.set("text_embeddings", embedded("text", inputs.at("tokens")));
  outputs.set("logit_scale", logit_scale_.reshape({}));
  if (logit_bias_.defined()) outputs.set("logit_bias", logit_bias_.reshape({}));
  return outputs;
}

void check_vocabulary(std::int64_t rows, std::int64_t size, const TowerOptions& options) {
  const bool is_guess = !options.tokenizer.merges && rows > size;
  if (rows >= size && !is_guess) return;
  throw refusal_of_towers(
      options, "tokenizer/merges",
      "the network has embeddings for " + std::to_string(rows) + " tokens, but the tokenizer" +
          (options.tokenizer.merges ? "" : " without merges (one token per byte)") + " has " +
          std::to_string(size))
      .with_help(is_guess ? "specify the merges of the tokenizer that the weights were trained "
                            "with, or build the network for " +
                                std::to_string(size) + " tokens"
                          : "build the network for " + std::to_string(size) +
                                " tokens, or specify the merges of another tokenizer");
}

}  // namespace stages
