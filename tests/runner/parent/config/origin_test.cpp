#include "runner/parent/config/provenance.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/config/yaml_writer.h"

namespace runner {
namespace {

TEST(Origin, EachLineShowsWhereItsValueWasWritten) {
  Sources sources;
  Value recipe =
      *read_yaml(sources.add("a.yaml", "train:\n  lr: 0.1\n  layers: [1,\n  2]\nempty: {}\n"));
  *recipe.find("train")->find("lr") = Value{3, {&sources.add("override 1", "lr=3"), 1, 4}};
  EXPECT_EQ(yaml_with_origins(recipe),
            "train:\n"
            "  lr: 3      # override 'lr=3'\n"
            "  layers:\n"
            "  - 1        # a.yaml:3\n"
            "  - 2        # a.yaml:4\n"
            "empty: {}    # a.yaml:5\n");
}

TEST(Origin, ValueFromASchemaIsMarkedAsDefault) {
  Sources sources;
  Value recipe = *read_yaml(sources.add("a.yaml", "train:\n  lr: 0.1\n"));
  Value& train = *recipe.find("train");
  Value epochs{8, train.where};
  epochs.is_default = true;
  train.map()->push_back({"epochs", train.where, epochs});
  EXPECT_EQ(yaml_with_origins(recipe),
            "train:\n"
            "  lr: 0.1      # a.yaml:2\n"
            "  epochs: 8    # default\n");
}

TEST(Origin, RecordRestoresTheOrigins) {
  Sources sources;
  Value recipe =
      *read_yaml(sources.add("a.yaml", "train:\n  lr: 0.1\n  layers: [1,\n  2]\nempty: {}\n"));
  *recipe.find("train")->find("lr") = Value{3, {&sources.add("override 1", "lr=3"), 1, 4}};
  recipe.find("empty")->is_default = true;
  const nlohmann::ordered_json origins = origins_json(recipe);
  const Value recorded = *read_yaml(sources.add("recipe.yaml", write_yaml(recipe)));
  EXPECT_EQ(yaml_with_origins(recorded, origins), yaml_with_origins(recipe));
}

TEST(Origin, DamagedRecordHasNoOrigins) {
  Sources sources;
  const Value recipe = *read_yaml(sources.add("a.yaml", "lr: 0.1\nseed: 1\n"));
  using Json = nlohmann::ordered_json;
  for (const Json& origins :
       {Json(), Json::array(), Json{{"/lr", 7}, {"/seed", Json::object()}},
        Json{{"/lr", {{"from", "file"}, {"file", "a"}, {"line", "x"}}}, {"/seed", {{"from", 1}}}}})
    EXPECT_EQ(yaml_with_origins(recipe, origins), "lr: 0.1\nseed: 1\n") << origins;
}

}  // namespace
}  // namespace runner
