#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/text/class_text.h"
#include "tests/support/pictures.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"

/// Creates and runs image stages of one kind. Their root is the folder data() unless their options
/// set another.
class ImageStageTest : public testing::Test {
 protected:
  using Json = nlohmann::ordered_json;

  explicit ImageStageTest(const runner::StageKind& kind) : kind_(kind) {}

  std::filesystem::path data() const { return folder_ / "data"; }

  /// `options`: a mapping, or its text.
  runner::Result<std::unique_ptr<runner::Stage>> create(const Json& options = Json::object()) {
    Json json = options.is_string() ? Json::parse(options.get<std::string>()) : options;
    if (!json.contains("root")) json["root"] = data().string();
    return created(kind_, json);
  }

  runner::Diagnostics errors(const Json& options = Json::object()) {
    return refusals_of([&] { return create(options); });
  }

  runner::Outputs run(const Json& options = Json::object()) {
    auto stage = create(options);
    if (!stage) throw std::invalid_argument(stage.errors().front().message);
    return (*stage)->run(runner::Inputs({}), context_);
  }

  /// The dataset at `port`; null if there is none.
  static std::shared_ptr<const stages::Dataset> part(const runner::Outputs& outputs,
                                                     const std::string& port) {
    const auto found = outputs.find(port);
    return found == outputs.end() ? nullptr
                                  : std::static_pointer_cast<const stages::Dataset>(found->second);
  }

  /// The training data as a training stage uses it.
  static std::shared_ptr<const stages::Dataset> to_train_on(const runner::Outputs& outputs) {
    return stages::as_trained(part(outputs, "train"));
  }

  static std::vector<std::string> names(const stages::Dataset& data) {
    std::vector<std::string> result;
    for (std::int64_t i = 0; i < data.describe().size; ++i) result.push_back(data.sample_name(i));
    return result;
  }

  static at::Tensor image(const stages::Dataset& data, std::int64_t epoch = 0,
                          std::int64_t index = 0) {
    return data.sample(epoch, index)->at("image");
  }

  static std::int64_t label(const stages::Dataset& data, std::int64_t index) {
    return data.sample(0, index)->at("label").item<std::int64_t>();
  }

  /// The caption of sample `index`; empty if the data has none.
  static std::string caption(const stages::Dataset& data, std::int64_t epoch, std::int64_t index) {
    const auto captions = data.describe().captions;
    const auto sample = data.sample(epoch, index);
    if (!sample->contains("caption")) return "";
    return captions.at(static_cast<std::size_t>(sample->at("caption").item<std::int64_t>()));
  }

  /// The captions that evaluation uses.
  static std::vector<std::string> captions(const stages::Dataset& data) {
    std::vector<std::string> result;
    for (const std::int64_t place : data.captions())
      result.push_back(data.describe().captions.at(static_cast<std::size_t>(place)));
    return result;
  }

  /// With captions such as `text`, which contains {name}, the prompt of every class occurs as a
  /// caption.
  void expect_asked_as_captioned(const std::string& text, Json options) {
    options["caption"] = text;
    for (const auto& [port, artifact] : run(options)) {
      const auto data = std::dynamic_pointer_cast<const stages::Dataset>(artifact);
      if (!data) continue;
      const stages::DatasetDescription described = data->describe();
      for (const std::string& words : stages::words_of(described))
        EXPECT_THAT(described.captions, testing::Contains(stages::class_text(text, words))) << port;
    }
  }

  const runner::StageKind& kind_;
  DrawingFolder folder_;
  RecordingContext context_;
};
