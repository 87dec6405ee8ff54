#include "stages/text/vocabulary_file.h"

#include <array>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>

#include <zlib.h>

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::Diagnostic;
using runner::ErrorCode;

constexpr std::string_view kGzipStart = "\x1f\x8b";
constexpr int kGzipWindow = 15 + 16;  // the largest window, and gzip's head

Diagnostic unusable(const fs::path& file, const std::string& why) {
  return {ErrorCode::kDamagedWeights, {}, "", "'" + file.string() + "' " + why, "use the file as published"};
}

Diagnostic too_long(const fs::path& file) {
  return unusable(file, "is longer than " + std::to_string(kMaxVocabularyBytes >> 20) + " MiB");
}

/// What `packed` holds compressed, as far as one byte beyond what is read; nullopt where it is damaged.
std::optional<std::string> unpacked(std::string_view packed) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> guard(&stream, &inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::array<char, 64 << 10> piece;
  int state = Z_OK;
  while (state == Z_OK && text.size() <= kMaxVocabularyBytes) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    state = inflate(&stream, Z_NO_FLUSH);
    text.append(piece.data(), piece.size() - stream.avail_out);
  }
  if (state != Z_STREAM_END && state != Z_OK) return std::nullopt;
  return text;
}

}  // namespace

runner::Result<std::string> read_vocabulary_file(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) {
    return Diagnostic{ErrorCode::kMissingWeights,
                      {},
                      "",
                      "there is no file '" + file.string() + "'",
                      "it is published with the weights: put it there"};
  }
  // A pipe would be waited for, and a device has no end.
  if (!fs::is_regular_file(status)) return unusable(file, "is not a file");
  std::ifstream stream(file, std::ios::binary);
  std::string bytes;
  std::array<char, 64 << 10> piece;
  while (stream.read(piece.data(), piece.size()), stream.gcount() > 0) {
    bytes.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
    if (bytes.size() > kMaxVocabularyBytes) return too_long(file);
  }
  if (!stream.eof()) return unusable(file, "cannot be read");
  if (!bytes.starts_with(kGzipStart)) return bytes;
  auto text = unpacked(bytes);
  if (!text) return unusable(file, "is damaged: it cannot be decompressed");
  if (text->size() > kMaxVocabularyBytes) return too_long(file);
  return *std::move(text);
}

}  // namespace stages
