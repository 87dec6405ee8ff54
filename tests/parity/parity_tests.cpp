// Compares this program with recorded results of other libraries.
//
//   parity_tests [GTEST FLAGS] [FOLDER...]
//
// Every case below the folders becomes a test; without a folder, those next to the checkout. Cases
// that no file in tests/parity compares become skipped tests.

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/parity/recorded_case.h"
#include "tests/support/shared_data.h"

namespace {

namespace fs = std::filesystem;

class CaseTest : public testing::Test {
 public:
  CaseTest(CaseKind kind, RecordedCase recorded)
      : kind_(std::move(kind)), recorded_(std::move(recorded)) {}
  void TestBody() override { kind_.compare(recorded_); }

 private:
  const CaseKind kind_;
  const RecordedCase recorded_;
};

/// True if the file belongs to a case: a folder above it, at or below `root`.
bool is_part_of_a_case(const fs::path& file, const fs::path& root) {
  for (fs::path folder = file.parent_path();
       folder != root.parent_path() && folder.has_relative_path(); folder = folder.parent_path()) {
    if (fs::exists(folder / "case.json")) return true;
    if (folder == root) break;
  }
  return false;
}

std::vector<RecordedCase> cases_below(const fs::path& root) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<RecordedCase> cases;
  for (const fs::path& file : files) {
    const bool is_folder = file.filename() == "case.json";
    if (!is_folder && is_part_of_a_case(file, root)) continue;
    std::ifstream stream(file);
    nlohmann::json json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("versions"))
      continue;  // not a record: every case names the versions that made it
    cases.push_back({is_folder ? file.parent_path() : file, std::move(json)});
  }
  return cases;
}

std::string test_name(const fs::path& path) {
  std::string name = path.stem().string();
  std::ranges::replace_if(
      name, [](unsigned char letter) { return !std::isalnum(letter); }, '_');
  return name;
}

/// The kind of cases that nothing compares.
CaseKind uncompared(const RecordedCase& recorded) {
  const std::string kind = kind_of(recorded);
  const std::string reason =
      kind.empty() ? "the case says no kind" : "no comparison for the kind '" + kind + "'";
  return {"Uncompared", {}, [reason](const RecordedCase&) { GTEST_SKIP() << reason; }};
}

void add(const RecordedCase& recorded, const CaseKind& kind) {
  testing::RegisterTest(kind.name.c_str(), test_name(recorded.path).c_str(), nullptr,
                        recorded.path.c_str(), __FILE__, __LINE__,
                        [kind, recorded] { return new CaseTest(kind, recorded); });
}

/// Adds all tests and returns their number.
int add_all(const fs::path& root, const std::vector<CaseKind>& kinds) {
  int added = 0;
  for (const RecordedCase& recorded : cases_below(root)) {
    const auto kind =
        std::ranges::find_if(kinds, [&](const CaseKind& kind) { return kind.matches(recorded); });
    add(recorded, kind == kinds.end() ? uncompared(recorded) : *kind);
    ++added;
  }
  return added;
}

}  // namespace

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  std::vector<CaseKind> kinds;
  for (const auto& of_file :
       {model_cases(),        clip_cases(),         fullsize_cases(),    backbone_cases(),
        dinov2_cases(),       drop_path_cases(),    layer_decay_cases(), lora_cases(),
        lora_variant_cases(), image_cases(),        schedule_cases(),    optimizer_cases(),
        quantizer_cases(),    loss_cases(),         metric_cases(),      tokenizer_cases(),
        picture_cases(),      augmentation_cases(), retrieval_cases(),   logistic_cases()})
    kinds.insert(kinds.end(), of_file.begin(), of_file.end());
  std::vector<fs::path> roots(words + 1, words + count);
  if (roots.empty()) {
    const fs::path recorded = shared_data("cases/parity");
    if (recorded.empty()) {
      std::puts("skipped: ../shared does not exist");
      return std::getenv("RETORT_REQUIRE_SHARED") ? 1 : 77;
    }
    roots.push_back(recorded);
  }
  for (const fs::path& root : roots) {
    if (add_all(root, kinds) > 0) continue;
    std::fprintf(stderr, "no recorded cases below '%s'\n", root.c_str());
    return 66;
  }
  return RUN_ALL_TESTS();
}
