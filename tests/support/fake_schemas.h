#pragma once

#include <gtest/gtest.h>

#include "runner/parent/compile/recipe.h"
#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/schema/schema.h"

namespace runner {

/// Schemas of a few small kinds, enough to wire graphs from: data.two (train, test), data.one
/// (train), model.net, train.fit (train, validation?, model → checkpoint), train.loop (checkpoint →
/// checkpoint), evaluate.test (test, checkpoint → metrics) and evaluate.vote (checkpoints, many →
/// metrics).
inline SchemaSet fake_schemas() {
  static const std::string kCommon(
      std::ranges::find(embedded_schemas(), "common.schema.json", &SchemaFile::path)->text);
  static const std::string kRecipe(
      std::ranges::find(embedded_schemas(), "recipe.schema.json", &SchemaFile::path)->text);
  static const std::string kSlurm(
      std::ranges::find(embedded_schemas(), "sweep/launcher/slurm.schema.json", &SchemaFile::path)
          ->text);
  static const auto kind = [](const std::string& title, const std::string& ports,
                              const std::string& properties) {
    return R"({"title": ")" + title + R"(", "description": "A test's.", "x-version": 1, )" + ports +
           R"(, "type": "object", "additionalProperties": false, "properties": {"kind": {"const": ")" +
           title + "\"}" + (properties.empty() ? "" : ", " + properties) + "}}";
  };
  static const std::string kTwo =
      kind("data.two", R"("x-outputs": {"train": "dataset", "test": "dataset"})", "");
  static const std::string kOne = kind(
      "data.one", R"("x-outputs": {"train": "dataset"})",
      R"("pick": {"type": "array", "items": {"type": "integer"}, "default": [], "description": "A list."},
                                          "text": {"type": "string", "default": "", "description": "A text."})");
  static const std::string kNet = kind("model.net", R"("x-outputs": {"model": "model"})", "");
  static const std::string kFit = kind(
      "train.fit",
      R"("x-inputs": {"train": "dataset", "validation": {"type": "dataset", "optional": true}, "model": "model"},
              "x-outputs": {"checkpoint": "checkpoint"})",
      R"("positive": {"type": "integer", "minimum": 0, "default": 1, "description": "A number."})");
  static const std::string kLoop = kind(
      "train.loop",
      R"("x-inputs": {"checkpoint": "checkpoint"}, "x-outputs": {"checkpoint": "checkpoint"})", "");
  static const std::string kTest = kind(
      "evaluate.test",
      R"("x-inputs": {"test": "dataset", "checkpoint": "checkpoint"}, "x-outputs": {"metrics": "metrics"})",
      "");
  static const std::string kVote = kind(
      "evaluate.vote",
      R"("x-inputs": {"checkpoints": {"type": "checkpoint", "many": true}}, "x-outputs": {"metrics": "metrics"})",
      "");
  const std::vector<SchemaFile> files = {
      {"common.schema.json", kCommon},      {"data/one.schema.json", kOne},
      {"data/two.schema.json", kTwo},       {"evaluate/test.schema.json", kTest},
      {"evaluate/vote.schema.json", kVote}, {"model/net.schema.json", kNet},
      {"recipe.schema.json", kRecipe},      {"sweep/launcher/slurm.schema.json", kSlurm},
      {"train/fit.schema.json", kFit},      {"train/loop.schema.json", kLoop}};
  auto schemas = SchemaSet::load(files);
  if (!schemas) ADD_FAILURE() << schemas.errors().front().message;
  return std::move(*schemas);
}

/// `yaml` as a recipe of the fake kinds; `schema: 1` is prepended to the first line.
inline Result<Recipe> fake_recipe(const std::string& yaml, const SchemaSet& schemas,
                                  Sources& sources) {
  auto value = read_yaml(sources.add("r.yaml", "schema: 1\n" + yaml));
  if (!value) return value.errors();
  if (auto errors = schemas.validate(*value); !errors.empty()) return errors;
  return make_recipe(std::move(*value), schemas);
}

}  // namespace runner
