#include "runner/shared/graph/graph.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/compile/compile.h"
#include "runner/parent/config/yaml_reader.h"
#include "runner/shared/graph/node_document.h"

namespace runner {
namespace {

class KeyOptions : public testing::Test {
 protected:
  static SchemaSet load() { return std::move(*SchemaSet::load(embedded_schemas())); }
  Graph compiled(const std::string& data, const std::string& memory = "") {
    auto value =
        read_yaml(sources_.add("r.yaml", "schema: 1\ndata: {kind: data.image_folder, root: photos" +
                                             data + "}\nmemory: {kind: memory.policy" + memory +
                                             "}\nmodel: {kind: model.clip_vision}\n"));
    EXPECT_TRUE(schemas_.validate(*value).empty());
    auto recipe = make_recipe(std::move(*value), schemas_);
    EXPECT_TRUE(recipe);
    auto graph = compile(*recipe, schemas_);
    EXPECT_TRUE(graph);
    return *std::move(graph);
  }
  static std::string key_of(const Graph& graph) {
    return nlohmann::json(to_json(*graph.nodes.at(0).key_options)).dump();  // sorted
  }

  const SchemaSet schemas_ = load();
  Sources sources_;
};

TEST_F(KeyOptions, LoaderOptionsAreExcluded) {
  const std::string plain = key_of(compiled(""));
  EXPECT_EQ(key_of(compiled(", loader: {workers: 3, prefetch: 7, pinned: true}, cache_mib: 100")),
            plain);
  EXPECT_NE(key_of(compiled(", loader: {drop_last: true}")), plain);
  EXPECT_NE(key_of(compiled(", image_size: 64")), plain);
  EXPECT_FALSE(compiled("").nodes.at(2).key_options);
}

TEST_F(KeyOptions, MemorySizesAreExcluded) {
  const auto key_of_memory = [&](const std::string& options) {
    return node_keys(compiled("", options)).at(1);
  };
  EXPECT_EQ(key_of_memory(", budget: 1GiB, memory_fraction: 0.5"), key_of_memory(""));
  EXPECT_NE(key_of_memory(", micro_batch: 3"), key_of_memory(""));
}

TEST_F(KeyOptions, SecretsAreExcluded) {
  Node node = compiled("").nodes.at(2);
  node.options.map()->front().value = {std::string("hunter2"), {}, "${oc.env:KEY}"};
  const auto options = key_options(node, {}, schemas_);
  ASSERT_TRUE(options);
  EXPECT_EQ(*options->map()->front().value.text(), "${oc.env:KEY}");
}

TEST(NodeKeys, DifferentPythonCodeChangesTheKey) {
  Graph graph;
  graph.nodes.push_back({.id = "model",
                         .stage = "model",
                         .kind = "model.code",
                         .options = {},
                         .pointer = "/model",
                         .inputs = {}});
  const auto key = [&] { return node_keys(graph).front(); };
  const auto document = [&] { return node_document(graph, std::vector<StageFacts>(1), 0, {}); };
  const std::string none = key();
  const nlohmann::json before = document();
  EXPECT_FALSE(before["nodes"]["model"].contains("code"));
  graph.nodes[0].code = "12";
  EXPECT_NE(key(), none);
  EXPECT_EQ(differences(before, document()),
            std::vector<std::string>{"the Python code of 'model' has changed"});
}

TEST_F(KeyOptions, AreSentWithTheGraph) {
  const Graph graph = compiled("");
  const Graph back = graph_from_json(to_json(graph));
  EXPECT_EQ(key_of(back), key_of(graph));
  EXPECT_FALSE(back.nodes.at(2).key_options);
}

}  // namespace
}  // namespace runner
