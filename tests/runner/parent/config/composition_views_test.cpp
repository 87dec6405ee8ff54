#include "runner/parent/config/composition_views.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/config/compose.h"
#include "tests/support/memory_file_system.h"

namespace runner {
namespace {

class CompositionViews : public testing::Test {
 protected:
  CompositionViews() {
    files.files = {
        {"recipes/a.yaml",
         "defaults: [{data: flowers}, {model@net: tiny}, {tags: [x, y]}, _self_]\nseed: 1\n"},
        {"recipes/data/flowers.yaml", "root: photos\n"},
        {"recipes/model/tiny.yaml", "defaults: [base]\nwidth: 32\n"},
        {"recipes/model/base.yaml", "layers: 2\n"},
        {"recipes/tags/x.yaml", "x: 1\n"},
        {"recipes/tags/y.yaml", "y: 1\n"}};
    auto opened = Composer::open({"a", {"~data"}, {"experiments", "recipes"}}, files,
                                 kWithoutSchema, sources);
    composer = std::make_unique<Composer>(std::move(*opened));
    list = composer->compose_once()->defaults;
  }

  MemoryFileSystem files;
  Sources sources;
  std::unique_ptr<Composer> composer;
  DefaultsList list;
};

TEST_F(CompositionViews, DefaultsAreListedInMergeOrder) {
  EXPECT_EQ(defaults_text(list),
            "Config      Package   Parent      File\n"
            "model/base  net       model/tiny  recipes/model/base.yaml\n"
            "model/tiny  net       a           recipes/model/tiny.yaml\n"
            "tags/x      tags      a           recipes/tags/x.yaml\n"
            "tags/y      tags      a           recipes/tags/y.yaml\n"
            "a           _global_              recipes/a.yaml\n");
  EXPECT_EQ(defaults_json(list)[4].dump(),
            R"({"config":"a","package":"","parent":null,"file":"recipes/a.yaml"})");
}

TEST_F(CompositionViews, TreeShowsTheChosenOptions) {
  EXPECT_EQ(defaults_tree_text(list),
            "a\n"
            "  model@net: tiny\n"
            "    model/base\n"
            "      _self_\n"
            "    _self_\n"
            "  tags: x, y\n"
            "    tags/x\n"
            "      _self_\n"
            "    tags/y\n"
            "      _self_\n"
            "  _self_\n");
  EXPECT_EQ(defaults_tree_json(list)["children"][2].dump(), R"({"name":"_self_"})");
}

TEST_F(CompositionViews, MissingFoldersAreMarked) {
  EXPECT_EQ(search_path_text(composer->configs()), "experiments    (missing)\nrecipes\n");
  EXPECT_EQ(search_path_json(composer->configs())[1].dump(),
            R"({"folder":"recipes","exists":true})");
}

}  // namespace
}  // namespace runner
