#include "stages/data/identical_files.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "runner/shared/disk/digest.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kEndBytes = 4096;
constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

using Places = std::vector<ImagePlace>;

/// Adds the next `size` bytes of `file` to `digest`. Returns false if there are fewer.
bool take(std::ifstream& file, std::uintmax_t size, runner::Digest& digest) {
  std::string piece(std::min<std::uintmax_t>(size, kPieceBytes), '\0');
  for (std::uintmax_t left = size; left > 0;) {
    const auto wanted = std::min<std::uintmax_t>(left, piece.size());
    if (!file.read(piece.data(), static_cast<std::streamsize>(wanted))) return false;
    digest.update(std::string_view(piece).substr(0, wanted));
    left -= wanted;
  }
  return true;
}

/// Returns the digest of the first and last bytes of a file of `size` bytes; nullopt if it cannot
/// be read.
std::optional<std::string> digest_of_ends(const fs::path& path, std::uintmax_t size) {
  std::ifstream file(path, std::ios::binary);
  runner::Digest digest;
  if (!take(file, std::min(size, kEndBytes), digest)) return std::nullopt;
  if (size > 2 * kEndBytes) file.seekg(-static_cast<std::streamoff>(kEndBytes), std::ios::end);
  if (size > kEndBytes && !take(file, std::min(size - kEndBytes, kEndBytes), digest))
    return std::nullopt;
  return digest.finish();
}

std::optional<std::string> digest_of_all(const fs::path& path, std::uintmax_t size) {
  std::ifstream file(path, std::ios::binary);
  runner::Digest digest;
  if (!take(file, size, digest)) return std::nullopt;
  return digest.finish();
}

}  // namespace

std::vector<std::vector<ImagePlace>> identical_files(const ImageList& list,
                                                     const std::function<void()>& look) {
  const auto path_of = [&](const ImagePlace& place) {
    return list.root / list[place.part][place.index].name;
  };
  std::map<std::uintmax_t, Places> by_size;
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
    for (std::size_t i = 0; i < list[part].size(); ++i) {
      std::error_code error;
      const std::uintmax_t size = fs::file_size(list.root / list[part][i].name, error);
      if (!error) by_size[size].push_back({part, i});
    }
  }
  const auto divided = [&](const Places& places, const auto& digest_of) {
    std::map<std::string, Places> by_digest;
    if (places.size() < 2) return by_digest;
    for (const ImagePlace& place : places) {
      if (look) look();
      if (auto digest = digest_of(path_of(place))) by_digest[*std::move(digest)].push_back(place);
    }
    return by_digest;
  };
  std::vector<Places> groups;
  for (const auto& [size, places] : by_size) {
    const std::uintmax_t bytes = size;  // clang 14 cannot capture a structured binding
    const auto of_ends = [bytes](const fs::path& path) { return digest_of_ends(path, bytes); };
    const auto of_all = [bytes](const fs::path& path) { return digest_of_all(path, bytes); };
    for (const auto& [ends, alike] : divided(places, of_ends)) {
      for (const auto& [digest, same] : divided(alike, of_all))
        if (same.size() > 1) groups.push_back(same);
    }
  }
  std::ranges::sort(groups);
  return groups;
}

}  // namespace stages
