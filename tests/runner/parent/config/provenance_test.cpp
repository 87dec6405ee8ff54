#include "runner/parent/config/provenance.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_reader.h"

namespace runner {
namespace {

class ProvenanceTest : public testing::Test {
 protected:
  void layer(const std::string& file, const std::string& yaml) {
    layers_.push_back(*read_yaml(sources_.add(file, yaml)));
  }
  void override(const std::string& text) {
    overrides_.push_back(
        *parse_override(sources_.add("override " + std::to_string(overrides_.size() + 1), text)));
  }
  std::string explained(const std::string& key) {
    return provenance_text(key, nullptr, std::nullopt, writes(layers_, overrides_, key));
  }

  Sources sources_;
  std::vector<Value> layers_;
  std::vector<Override> overrides_;
};

TEST_F(ProvenanceTest, WritesAreListedInOrder) {
  layer("a.yaml", "train:\n  epochs: 50\n");
  layer("b.yaml", "data: {root: x}\n");
  layer("c.yaml", "train: {epochs: 8}\n");
  override("train.epochs=9");
  override("train.epoch=1");
  EXPECT_EQ(explained("train.epochs"),
            "train.epochs: not set\n"
            "  a.yaml:2                     50\n"
            "  c.yaml:1                     8\n"
            "  override 'train.epochs=9'    9    <- this one is used\n");
}

TEST_F(ProvenanceTest, AllWritesToAMappingCount) {
  layer("a.yaml", "train: {epochs: 1}\n");
  layer("b.yaml", "train: {seed: 2}\n");
  const Value merged{Value::Map{}, {}};
  EXPECT_EQ(provenance_text("train", &merged, {}, writes(layers_, overrides_, "train")),
            "train: {}\n"
            "  a.yaml:1    {\"epochs\":1}\n"
            "  b.yaml:1    {\"seed\":2}\n");
}

TEST_F(ProvenanceTest, WritesToTheEnclosingMappingCount) {
  layer("a.yaml", "train: {optimizer: {lr: 1}}\n");
  layer("b.yaml", "train: null\n");
  override("train.optimizer={lr: 3}");
  override("~train");
  EXPECT_EQ(explained("train.optimizer.lr"),
            "train.optimizer.lr: not set\n"
            "  a.yaml:1                              1\n"
            "  b.yaml:1                              null\n"
            "  override 'train.optimizer={lr: 3}'    3\n"
            "  override '~train'                     deletes it    <- this one is used\n");
}

TEST_F(ProvenanceTest, WritesBelowAMappingCountAsItsWrites) {
  layer("a.yaml", "train: {lr: 1}\n");
  override("train.lr=2");
  const auto found = writes(layers_, overrides_, "train");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(to_json(*found[0].value).dump(), R"({"lr":1})");
}

TEST_F(ProvenanceTest, ListItemsAreCounted) {
  layer("a.yaml", "layers: [1, 2]\n");
  EXPECT_EQ(writes(layers_, overrides_, "layers.1").size(), 1u);
  EXPECT_TRUE(writes(layers_, overrides_, "layers.2").empty());
}

TEST_F(ProvenanceTest, SchemaDefaultComesFirst) {
  const Value value{10, {}};
  EXPECT_EQ(provenance_text("a", &value, value, {}), "a: 10\n  default    10\n");
  layer("a.yaml", "a: 3\n");
  EXPECT_EQ(
      provenance_json("a", layers_[0].find("a"), value, writes(layers_, overrides_, "a")).dump(),
      R"({"key":"a","value":3,"writes":[{"origin":"a.yaml:1","value":3}],"default":10})");
}

}  // namespace
}  // namespace runner
