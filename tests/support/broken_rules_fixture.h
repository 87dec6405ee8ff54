#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/compile/compile.h"
#include "runner/parent/schema/schema.h"

namespace runner {

/// Tests of the rules about options of the shipped kinds that depend on each other.
class BrokenRules : public testing::Test {
 protected:
  static const SchemaSet& shipped() {
    static const auto schemas = SchemaSet::load(embedded_schemas());
    return *schemas;
  }

  /// A stage of `kind` with these options and defaults for the others.
  static Node node_of(const std::string& kind, const std::string& options,
                      const SchemaSet& schemas) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(options);
    json["kind"] = kind;
    Value value = from_json(json);
    const Diagnostics errors = schemas.validate(value, schemas.kind(kind)->file);
    EXPECT_TRUE(errors.empty()) << errors.front().message;
    Node node;
    node.kind = kind;
    node.options = std::move(value);
    node.pointer = "/" + kind.substr(0, kind.find('.'));
    return node;
  }

  /// Returns "pointer: message" for each rule that the options break.
  static std::vector<std::string> broken(const std::string& kind, const std::string& options,
                                         bool has_validation = true,
                                         const SchemaSet& schemas = shipped()) {
    Graph graph;
    graph.nodes.push_back(node_of(kind, options, schemas));
    if (has_validation)
      graph.nodes[0].inputs.push_back({"validation", 0, "validation", ArtifactType::kDataset});
    std::vector<std::string> lines;
    for (const Diagnostic& error : broken_rules(graph, schemas)) {
      EXPECT_EQ(error.code, ErrorCode::kOptionConflict);
      EXPECT_FALSE(error.help.empty());
      lines.push_back(error.pointer + ": " + error.message);
    }
    return lines;
  }

  /// The rules that a supervised training stage with these options breaks.
  static std::vector<std::string> of_training(const std::string& options) {
    return broken("train.supervised", "{" + options + "}");
  }

  /// Returns "pointer: message" for each rule that training this model on these images breaks.
  static std::vector<std::string> of_sizes(const std::string& data, const std::string& model_kind,
                                           const std::string& model,
                                           const std::string& training_kind = "train.supervised",
                                           const SchemaSet& schemas = shipped()) {
    Graph graph;
    graph.nodes.push_back(node_of("data.image_folder", data, schemas));
    graph.nodes.push_back(node_of(model_kind, model, schemas));
    graph.nodes.push_back(node_of(training_kind, "{}", schemas));
    graph.nodes[2].inputs = {{"train", 0, "train", ArtifactType::kDataset},
                             {"model", 1, "model", ArtifactType::kModel}};
    std::vector<std::string> lines;
    for (const Diagnostic& error : broken_rules(graph, schemas))
      lines.push_back(error.pointer + ": " + error.message);
    return lines;
  }
};

}  // namespace runner
