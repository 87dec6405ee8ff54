#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "runner/graph.h"
#include "runner/recipe.h"
#include "runner/schema.h"
#include "runner/yaml_reader.h"

namespace runner {

/// A small house of kinds for tests of recipes and graphs, with names that no shipped kind has.
inline SchemaSet fake_schemas() {
  constexpr std::array kFiles = {
      SchemaFile{"common.schema.json", R"({
        "$id": "common.schema.json",
        "definitions": {
          "name": {"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,119}$", "description": "A file name."},
          "stage": {"type": "object", "properties": {
            "kind": {"type": "string", "description": "The kind."},
            "name": {"$ref": "#/definitions/name", "description": "A word."},
            "inputs": {"type": "object", "description": "Wires.", "additionalProperties": {"anyOf": [
              {"type": "string", "minLength": 3},
              {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 3}}]}},
            "foreach": {"type": "object", "minProperties": 1, "description": "Items.",
              "additionalProperties": {"type": "array", "minItems": 1}}}}}})"},
      SchemaFile{"recipe.schema.json", R"({
        "$id": "recipe.schema.json", "type": "object", "required": ["schema"],
        "properties": {
          "schema": {"const": 1, "description": "The version."},
          "name": {"$ref": "common.schema.json#/definitions/name", "default": "run", "description": "The run's name."},
          "seed": {"type": "integer", "minimum": 0, "default": 0, "description": "The seed."},
          "threads": {"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": 1024}],
            "default": "auto", "description": "Threads."},
          "device": {"type": "object", "additionalProperties": false, "default": {}, "description": "The device.",
            "properties": {"select": {"enum": ["cpu", "cuda:1"], "default": "cpu", "description": "Which."}}},
          "run": {"type": "object", "additionalProperties": false, "default": {}, "description": "The run.",
            "properties": {"dir": {"anyOf": [{"const": null}, {"type": "string"}], "default": null,
              "description": "Its folder."}}},
          "vars": {"type": "object", "description": "Values of your own."}},
        "additionalProperties": {"x-kinds": "*"}})"},
      SchemaFile{"data/folder.schema.json", R"({
        "$id": "data/folder.schema.json", "title": "data.folder", "description": "Reads a folder.", "x-version": 1,
        "x-outputs": {"train": "dataset", "validation": "dataset", "test": "dataset"},
        "type": "object", "additionalProperties": false, "properties": {"kind": {"const": "data.folder"},
          "root": {"type": "string", "default": "images", "description": "The folder."}}})"},
      SchemaFile{"data/list.schema.json", R"({
        "$id": "data/list.schema.json", "title": "data.list", "description": "Reads a list.", "x-version": 1,
        "x-outputs": {"train": "dataset"},
        "type": "object", "additionalProperties": false, "properties": {"kind": {"const": "data.list"}}})"},
      SchemaFile{"evaluate/score.schema.json", R"({
        "$id": "evaluate/score.schema.json", "title": "evaluate.score", "description": "Scores.", "x-version": 1,
        "x-inputs": {"test": "dataset", "checkpoint": "checkpoint"}, "x-outputs": {"metrics": "metrics"},
        "type": "object", "additionalProperties": false, "properties": {"kind": {"const": "evaluate.score"}}})"},
      SchemaFile{"evaluate/vote.schema.json", R"({
        "$id": "evaluate/vote.schema.json", "title": "evaluate.vote", "description": "Votes.", "x-version": 1,
        "x-inputs": {"test": "dataset", "checkpoints": {"type": "checkpoint", "many": true}},
        "x-outputs": {"metrics": "metrics"},
        "type": "object", "additionalProperties": false, "properties": {"kind": {"const": "evaluate.vote"}}})"},
      SchemaFile{"model/dream.schema.json", R"({
        "$id": "model/dream.schema.json", "title": "model.dream", "description": "Not built yet.", "x-version": 1,
        "x-planned": true, "x-outputs": {"model": "model"},
        "type": "object", "additionalProperties": false, "properties": {"kind": {"const": "model.dream"}}})"},
      SchemaFile{"model/small.schema.json", R"({
        "$id": "model/small.schema.json", "title": "model.small", "description": "A model.", "x-version": 1,
        "x-outputs": {"model": "model"},
        "type": "object", "additionalProperties": false, "properties": {"kind": {"const": "model.small"}}})"},
      SchemaFile{"train/fit.schema.json", R"({
        "$id": "train/fit.schema.json", "title": "train.fit", "description": "Trains.", "x-version": 1,
        "x-inputs": {"train": "dataset", "validation": {"type": "dataset", "optional": true}, "model": "model",
          "start": {"type": "checkpoint", "optional": true}},
        "x-outputs": {"checkpoint": "checkpoint", "metrics": "metrics"},
        "type": "object", "additionalProperties": false, "properties": {
          "kind": {"const": "train.fit"},
          "epochs": {"type": "integer", "minimum": 1, "default": 1, "description": "Epochs."},
          "label": {"type": "string", "default": "", "description": "A text."},
          "classes": {"type": "array", "items": {"type": "integer"}, "default": [], "description": "Classes."},
          "extra": {"type": "object", "default": {}, "description": "Anything."}}})"},
  };
  auto schemas = SchemaSet::load(kFiles);
  if (!schemas) ADD_FAILURE() << schemas.errors().front().message;
  return std::move(*schemas);
}

/// A recipe from its text, which stays alive with it.
struct FakeRecipe {
  Sources sources;
  SchemaSet schemas = fake_schemas();

  Result<Recipe> recipe(std::string text) {
    auto value = read_yaml(sources.add("recipe.yaml", "schema: 1\n" + std::move(text)));
    if (!value) return value.errors();
    return make_recipe(std::move(*value), schemas);
  }

  Result<Graph> graph(std::string text) {
    const auto made = recipe(std::move(text));
    if (!made) return made.errors();
    return compile(*made, schemas);
  }
};

/// "line:column code message [pointer] | help" and a line for each note, of every error.
inline std::vector<std::string> complaints(const Diagnostics& errors) {
  std::vector<std::string> lines;
  const auto place = [](const Location& where) { return std::to_string(where.line) + ":" + std::to_string(where.column); };
  for (const Diagnostic& error : errors) {
    lines.push_back(place(error.where) + " " + name(error.code) + " " + error.message + " [" + error.pointer + "] | " + error.help);
    for (const Note& note : error.notes) lines.push_back("  " + place(note.where) + " " + note.message);
  }
  return lines;
}

template <typename T>
std::vector<std::string> complaints(const Result<T>& result) {
  return result ? std::vector<std::string>() : complaints(result.errors());
}

/// "train: data.train → train, model.model → model" for every node.
inline std::vector<std::string> wires(const Result<Graph>& graph) {
  if (!graph) return complaints(graph);
  std::vector<std::string> lines;
  for (const Node& node : graph->nodes) {
    std::string line = node.id + ":";
    for (const Edge& edge : node.inputs) {
      line += (&edge == node.inputs.data() ? " " : ", ") + graph->nodes[edge.from].id + "." + edge.output + " → " + edge.input;
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace runner
