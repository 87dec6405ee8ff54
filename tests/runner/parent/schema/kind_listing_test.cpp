#include "runner/parent/schema/option_listing.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/schema_texts.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

TEST(KindListing, StagesAreGroupedByFamilyWithPorts) {
  EXPECT_EQ(stages_text(small_schemas()),
            "data\n"
            "  data.folder  Reads a folder.\n"
            "    out  train: dataset\n"
            "\n"
            "train\n"
            "  train.fit    Fits a model.\n"
            "    in   data: dataset, others: dataset, many (optional)\n"
            "    out  checkpoint: checkpoint\n");
}

TEST(KindListing, JsonHasEveryPort) {
  EXPECT_EQ(stages_json(small_schemas())["kinds"][1].dump(),
            R"({"name":"train.fit","family":"train","summary":"Fits a model.","version":3,)"
            R"("inputs":[{"name":"data","type":"dataset","optional":false,"many":false},)"
            R"({"name":"others","type":"dataset","optional":true,"many":true}],)"
            R"("outputs":[{"name":"checkpoint","type":"checkpoint"}],"cacheable":true})");
}

}  // namespace
}  // namespace runner
