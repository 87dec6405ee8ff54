#include "stages/artifact/division.h"

#include <zlib.h>

#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <new>
#include <optional>
#include <system_error>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/stage/stage.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "retort division 1", kRoot = "root", kDrawnBy = "drawn_by",
                           kClass = "class";
constexpr std::size_t kLargestDivision = std::size_t{4} << 30;
// zlib's windowBits: the largest window (15), and 16 for a gzip header.
constexpr int kGzipHeaderWindow = 15 + 16;

std::string on_one_line(std::string_view text) {
  std::string line;
  for (const char letter : text) {
    if (letter == '\\') line += "\\\\";
    else if (letter == '\n') line += "\\n";
    else line += letter;
  }
  return line;
}

std::string from_one_line(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) text += line[i];
    else text += line[++i] == 'n' ? '\n' : line[i];
  }
  return text;
}

/// Removes the first word and the space after it from `line`, and returns the word.
std::string_view take_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

std::string gzipped(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipHeaderWindow, /*memLevel=*/8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  const struct End {
    z_stream& stream;
    ~End() { deflateEnd(&stream); }
  } end{stream};
  std::string result;
  std::array<char, 64 << 10> piece;
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
  for (int state = Z_OK; state != Z_STREAM_END;) {
    if (stream.avail_in == 0) {
      const std::string_view next = text.substr(0, kMostAtOnce);
      text.remove_prefix(next.size());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(next.data()));
      stream.avail_in = static_cast<uInt>(next.size());
    }
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    state = deflate(&stream, text.empty() ? Z_FINISH : Z_NO_FLUSH);
    result.append(piece.data(), piece.size() - stream.avail_out);
  }
  return result;
}

/// Decompresses a file written by gzipped(). Returns nullopt if it is missing, damaged or too long.
std::optional<std::string> gunzipped(const fs::path& file) {
  std::ifstream stream_in = runner::open_regular(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream_in), {}};
  if (!stream_in || bytes.size() > (std::size_t{1} << 30)) return std::nullopt;
  z_stream stream{};
  if (inflateInit2(&stream, kGzipHeaderWindow) != Z_OK) throw std::bad_alloc();
  const struct End {
    z_stream& stream;
    ~End() { inflateEnd(&stream); }
  } end{stream};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string text;
  std::array<char, 64 << 10> piece;
  int state = Z_OK;
  while (state == Z_OK && text.size() < kLargestDivision) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    state = inflate(&stream, Z_NO_FLUSH);
    text.append(piece.data(), piece.size() - stream.avail_out);
  }
  return state == Z_STREAM_END ? std::optional(std::move(text)) : std::nullopt;
}

/// Parses one line and adds it to `division`. Returns false if the line is malformed.
bool add_line(Division& division, std::string_view line) {
  const std::string_view word = take_word(line);
  if (word == kRoot) division.root = from_one_line(line);
  else if (word == kDrawnBy) division.drawn_by = from_one_line(line);
  else if (word == kClass) {
    const std::string part(take_word(line));
    division.classes[part].push_back(from_one_line(line));
  } else {
    const std::string_view number = take_word(line);
    Division::File file;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), file.bytes);
    if (error != std::errc() || end != number.data() + number.size() || line.empty()) return false;
    file.name = from_one_line(line);
    division.parts[std::string(word)].push_back(std::move(file));
  }
  return true;
}

std::optional<Division> division_in(std::string_view text) {
  Division division;
  bool is_first = true;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (is_first ? line != kFirstLine : !add_line(division, line)) return std::nullopt;
    is_first = false;
  }
  return is_first ? std::nullopt : std::optional(std::move(division));
}

}  // namespace

std::string to_gzip(const Division& division) {
  std::string text;
  const auto add = [&](std::string_view word, std::string_view rest) {
    text.append(word).append(rest.empty() ? "" : " ").append(on_one_line(rest)) += '\n';
  };
  add(kFirstLine, "");
  add(kRoot, division.root);
  add(kDrawnBy, division.drawn_by);
  for (const auto& [part, classes] : division.classes)
    for (const std::string& name : classes) add(std::string(kClass) + " " + part, name);
  for (const auto& [part, files] : division.parts)
    for (const Division::File& file : files)
      add(part + " " + std::to_string(file.bytes), file.name);
  return gzipped(text);
}

Division read_division(const fs::path& file) {
  const auto text = gunzipped(file);
  auto division = text ? division_in(*text) : std::nullopt;
  if (division) return *std::move(division);
  throw runner::StageError(
      runner::ErrorCode::kDamagedRecord,
      "'" + file.string() + "', the record of how the run's images were divided, is damaged")
      .with_help(
          "restore it from a copy of the run: without it, the images used for training are "
          "unknown");
}

std::string division_root(const fs::path& folder) {
  std::error_code error;
  fs::path whole = fs::canonical(folder, error);
  if (error) whole = fs::absolute(folder, error).lexically_normal();
  return whole.string();
}

std::uintmax_t bytes_of_file(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  return error ? 0 : bytes;
}

}  // namespace stages
