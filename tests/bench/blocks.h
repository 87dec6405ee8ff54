#pragma once

#include <chrono>
#include <functional>
#include <iostream>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "stages/machine/memory_meter.h"

/// The protocol between compare.py and a benchmark: compare.py writes the size of a block on a
/// line, and the benchmark runs the block and answers with a line of JSON. The end of the input
/// ends the benchmark.
inline std::optional<int> next_block() {
  std::string line;
  if (!std::getline(std::cin, line)) return {};
  return std::stoi(line);
}

/// Prints `answer` with the current and the peak resident memory added.
inline void report(nlohmann::json answer) {
  answer["resident_bytes"] = stages::kilobytes_field("/proc/self/status", "VmRSS");
  answer["peak_bytes"] = stages::kilobytes_field("/proc/self/status", "VmHWM");
  std::cout << answer.dump() << std::endl;
}

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The time that `work` takes.
inline double seconds_of(const std::function<void()>& work) {
  const double began = seconds_now();
  work();
  return seconds_now() - began;
}
