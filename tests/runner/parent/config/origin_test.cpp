#include "runner/parent/config/provenance.h"

#include <gtest/gtest.h>

#include "runner/parent/config/yaml_reader.h"

namespace runner {
namespace {

TEST(Origin, EachLineSaysWhereItsValueWasWritten) {
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

TEST(Origin, WhatASchemaFilledInIsADefault) {
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

}  // namespace
}  // namespace runner
