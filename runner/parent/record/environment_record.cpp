#include "runner/parent/record/environment_record.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include <nlohmann/json.hpp>

#include "runner/parent/config/secret.h"
#include "runner/shared/disk/descriptor.h"
#include "runner/shared/protocol/event.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kPrefixes = {"OMP_", "MKL_", "PYTORCH_"};
constexpr std::array<std::string_view, 6> kPackageVariables = {
    "ATEN_CPU_CAPABILITY",  "CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES", "ONEDNN_MAX_CPU_ISA",      "SLURM_JOB_ID"};
/// The x86 and Arm instruction sets that affect which kernels LibTorch and oneDNN choose, named as
/// in /proc/cpuinfo.
constexpr std::array<std::string_view, 16> kInstructionSets = {
    "avx",      "avx2",     "fma",         "f16c",     "avx512f",     "avx512bw",
    "avx512vl", "avx512dq", "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16",
    "amx_tile", "amx_int8", "amx_bf16",    "sve"};

/// Returns the text after "key:" on the first such line of `file`; empty if there is none.
std::string field(const std::filesystem::path& file, std::string_view key, char separator) {
  std::ifstream in = open_regular(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(separator);
    const std::size_t begin =
        colon == line.npos ? line.npos : line.find_first_not_of(" \t\"", colon + 1);
    if (begin == line.npos) return "";
    return line.substr(begin, line.find_last_not_of(" \t\"") - begin + 1);
  }
  return "";
}

/// Returns the members of kInstructionSets that the processor supports.
Json instruction_sets(const std::filesystem::path& proc) {
  std::string flags = field(proc / "cpuinfo", "flags", ':');
  if (flags.empty()) flags = field(proc / "cpuinfo", "Features", ':');  // on Arm
  flags = " " + flags + " ";
  Json sets = Json::array();
  for (const std::string_view set : kInstructionSets)
    if (flags.find(" " + std::string(set) + " ") != flags.npos) sets.push_back(set);
  return sets;
}

Json variables(const char* const* environment) {
  std::map<std::string, std::string> sorted;
  for (; *environment; ++environment) {
    const std::string_view entry = *environment;
    const std::size_t equals = std::min(entry.find('='), entry.size());
    if (equals == entry.size() || !is_recorded_variable(entry.substr(0, equals))) continue;
    sorted.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  Json json = Json::object();
  for (const auto& [name, value] : sorted) json[name] = value;
  return json;
}

}  // namespace

bool is_recorded_variable(std::string_view name) {
  if (names_a_secret(name)) return false;
  return std::ranges::any_of(kPrefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::ranges::find(kPackageVariables, name) != kPackageVariables.end();
}

Json environment_record(const Json& versions, const char* const* environment,
                        const std::filesystem::path& proc) {
  utsname system{};
  uname(&system);
  const std::string memory = field(proc / "meminfo", "MemTotal", ':');  // "16384 kB"
  return {{"schema", 1},
          {"retort", build_id()},
          {"versions", versions},
          {"system",
           {{"name", field("/etc/os-release", "PRETTY_NAME", '=')},
            {"kernel", std::string(system.sysname) + " " + system.release},
            {"machine", system.machine}}},
          {"cpu",
           {{"model", field(proc / "cpuinfo", "model name", ':')},
            {"logical", std::thread::hardware_concurrency()},
            {"instruction_sets", instruction_sets(proc)}}},
          {"memory_bytes", memory.empty() ? 0 : std::strtoll(memory.c_str(), nullptr, 10) * 1024},
          {"variables", variables(environment)}};
}

}  // namespace runner
