// Holds the reading and composing of recipes against recorded cases: cases_runner FOLDER. Prints a line for each case
// that differs, the known differences with their reasons, and a total; ends with 1 when any case differs, with 77
// where there is no such folder. How to add a format: tests/cases/README.md.

#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>

#include "tests/cases_runner/formats.h"

namespace {

constexpr int kSkipped = 77;  // what ctest takes for "skipped"

struct Tally {
  int same = 0, different = 0;
  std::map<std::string, int> known_differences;  // by reason
};

Verdict check(CheckCase check_case, const std::string& line, const std::filesystem::path& folder) {
  try {
    return check_case(nlohmann::ordered_json::parse(line), folder);
  } catch (const std::exception& error) {
    return Verdict::different(std::string("threw: ") + error.what());
  }
}

Tally run_file(const Format& format, const std::filesystem::path& folder) {
  Tally tally;
  std::ifstream lines(folder / format.file);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const Verdict verdict = check(format.check, line, folder);
    if (verdict.kind == Verdict::Kind::kSame) ++tally.same;
    if (verdict.kind == Verdict::Kind::kKnownDifference) ++tally.known_differences[verdict.text];
    if (verdict.kind == Verdict::Kind::kDifferent) {
      ++tally.different;
      std::cout << format.file << ":" << number << ": " << verdict.text << "\n";
    }
  }
  return tally;
}

std::string summary(const Tally& tally) {
  int known = 0;
  for (const auto& [reason, times] : tally.known_differences) known += times;
  return std::to_string(tally.same) + " same, " + std::to_string(known) + " different on purpose, " +
         std::to_string(tally.different) + " different\n";
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::cerr << "usage: cases_runner FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = words[1];
  if (!std::filesystem::is_directory(folder)) {
    std::cout << "skipped: there is no folder " << folder.string() << "\n";
    return kSkipped;
  }
  Tally total;
  for (const Format& format : all_formats()) {
    const Tally tally = run_file(format, folder);
    std::cout << format.file << ": " << summary(tally);
    for (const auto& [reason, times] : tally.known_differences) std::cout << "  " << times << ": " << reason << "\n";
    total.same += tally.same;
    total.different += tally.different;
    for (const auto& [reason, times] : tally.known_differences) total.known_differences[reason] += times;
  }
  std::cout << "total: " << summary(total);
  return total.different > 0 ? 1 : 0;
}
