// Compares this program with what other libraries have computed.
//
//   parity_tests [GTEST FLAGS] [FOLDER...]
//
// Every case below the folders is a test; without a folder it is those that lie beside the checkout.

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
  CaseTest(const CaseKind& kind, RecordedCase recorded) : kind_(kind), recorded_(std::move(recorded)) {}
  void TestBody() override { kind_.compare(recorded_); }

 private:
  const CaseKind& kind_;
  const RecordedCase recorded_;
};

std::vector<RecordedCase> cases_below(const fs::path& root) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<RecordedCase> cases;
  for (const fs::path& file : files) {
    const bool is_folder = file.filename() == "case.json";
    if (!is_folder && fs::exists(file.parent_path() / "case.json")) continue;  // a part of that case
    std::ifstream stream(file);
    nlohmann::json json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) cases.push_back({is_folder ? file.parent_path() : file, std::move(json)});
  }
  return cases;
}

std::string test_name(const fs::path& path) {
  std::string name = path.stem().string();
  std::ranges::replace_if(
      name, [](unsigned char letter) { return !std::isalnum(letter); }, '_');
  return name;
}

/// How many tests there are now.
int add(const fs::path& root, const std::vector<CaseKind>& kinds) {
  int added = 0;
  for (const RecordedCase& recorded : cases_below(root)) {
    const auto kind = std::ranges::find_if(kinds, [&](const CaseKind& kind) { return kind.matches(recorded); });
    if (kind == kinds.end()) continue;
    testing::RegisterTest(kind->name.c_str(), test_name(recorded.path).c_str(), nullptr, recorded.path.c_str(),
                          __FILE__, __LINE__, [&kind = *kind, recorded] { return new CaseTest(kind, recorded); });
    ++added;
  }
  return added;
}

}  // namespace

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  std::vector<CaseKind> kinds;
  for (const auto& of_file : {model_cases(), fullsize_cases(), lora_cases()})
    kinds.insert(kinds.end(), of_file.begin(), of_file.end());
  std::vector<fs::path> roots(words + 1, words + count);
  if (roots.empty()) {
    const fs::path recorded = shared_data("cases/parity");
    if (recorded.empty()) {
      std::puts("skipped: ../shared is not there");
      return std::getenv("RETORT_REQUIRE_SHARED") ? 1 : 77;
    }
    roots.push_back(recorded);
  }
  for (const fs::path& root : roots) {
    if (add(root, kinds) > 0) continue;
    std::fprintf(stderr, "no recorded cases below '%s'\n", root.c_str());
    return 66;
  }
  return RUN_ALL_TESTS();
}
