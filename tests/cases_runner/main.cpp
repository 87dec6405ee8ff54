// Compares how Retort reads and composes recipes with recorded cases: cases_runner FOLDER. Prints a
// line for each case that differs, the known differences with their reasons, the case files without
// a format, and a total. The exit code is 1 if a case differs, 66 if the folder contains no cases,
// and 77 if it does not exist. tests/cases/README.md explains how to add a format.

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>

#include "tests/cases_runner/formats.h"

namespace {

constexpr int kNoCases = 66;
constexpr int kSkipped = 77;  // ctest reports this code as skipped

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

/// Reports the case files in the folder that no format reads.
void report_unknown_files(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    const bool is_known = std::ranges::any_of(
        all_formats(), [&](const Format& format) { return format.file == file; });
    if (entry.path().extension() == ".jsonl" && !is_known)
      std::cout << "skipped: no format for " << file << "\n";
  }
}

int known_differences(const Tally& tally) {
  int known = 0;
  for (const auto& [reason, times] : tally.known_differences) known += times;
  return known;
}

std::string summary(const Tally& tally) {
  return std::to_string(tally.same) + " same, " + std::to_string(known_differences(tally)) +
         " different on purpose, " + std::to_string(tally.different) + " different\n";
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
    if (!std::filesystem::exists(folder / format.file)) continue;
    const Tally tally = run_file(format, folder);
    std::cout << format.file << ": " << summary(tally);
    for (const auto& [reason, times] : tally.known_differences)
      std::cout << "  " << times << ": " << reason << "\n";
    total.same += tally.same;
    total.different += tally.different;
    for (const auto& [reason, times] : tally.known_differences)
      total.known_differences[reason] += times;
  }
  report_unknown_files(folder);
  std::cout << "total: " << summary(total);
  if (total.same + total.different + known_differences(total) == 0) {
    std::cerr << "no recorded cases in '" << folder.string() << "'\n";
    return kNoCases;
  }
  return total.different > 0 ? 1 : 0;
}
