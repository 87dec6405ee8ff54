#include "stages/data/annotation_files.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include "runner/shared/disk/descriptor.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::Diagnostic;
using runner::ErrorCode;

constexpr std::size_t kShownFaults = 10;

/// If the bytes are in another common file format, such as UTF-16 or gzip, returns the name of the
/// format and what to do about it; otherwise returns empty strings.
std::pair<std::string, std::string> form_of(std::string_view bytes) {
  using namespace std::string_view_literals;
  const std::string save = "save it as UTF-8 (`iconv -f utf16 -t utf8`; in Excel: CSV UTF-8)",
                    unpack = "unpack it";
  const std::pair<std::string_view, std::pair<std::string, std::string>> kForms[] = {
      {"\xff\xfe"sv, {"UTF-16 text", save}},
      {"\xfe\xff"sv, {"UTF-16 text", save}},
      {"\x1f\x8b"sv, {"compressed with gzip", unpack + ": gunzip"}},
      {"BZh"sv, {"compressed with bzip2", unpack + ": bunzip2"}},
      {"\xfd\x37zXZ\0"sv, {"compressed with xz", unpack + ": unxz"}},
      {"\x28\xb5\x2f\xfd"sv, {"compressed with zstd", unpack + ": unzstd"}},
      {"PK\3\4"sv,
       {"a zip archive, such as an .xlsx file", unpack + ", or export the table as CSV UTF-8"}},
      {"PAR1"sv, {"a Parquet file", "export the table as CSV UTF-8"}},
  };
  for (const auto& [start, form] : kForms)
    if (bytes.starts_with(start)) return form;
  // ASCII text in UTF-16 without a byte order mark has a zero in every other byte.
  constexpr std::size_t kLooked = 64;
  const std::string_view start = bytes.substr(0, std::min(kLooked, bytes.size() / 2 * 2));
  std::size_t zeros[2] = {};
  for (std::size_t i = 0; i < start.size(); ++i) zeros[i % 2] += start[i] == 0;
  const bool is_wide = start.size() >= 4 && std::max(zeros[0], zeros[1]) == start.size() / 2 &&
                       std::min(zeros[0], zeros[1]) == 0;
  return is_wide ? std::pair<std::string, std::string>("UTF-16 text", save)
                 : std::pair<std::string, std::string>();
}

}  // namespace

std::optional<fs::path> published_folder(const fs::path& root, const std::string& inner,
                                         const std::string& sign) {
  std::error_code error;
  if (fs::exists(root / sign, error)) return root;
  if (fs::is_directory(root / inner, error)) return root / inner;
  return std::nullopt;
}

bool AnnotationFiles::has(const std::string& name) const {
  std::error_code error;
  return fs::exists(fs::symlink_status(folder_ / name, error));
}

std::optional<std::string> AnnotationFiles::read(const std::string& name, std::size_t limit) {
  const fs::path path = folder_ / name;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    add(name, ErrorCode::kMissingAnnotations, "there is no file '" + path.string() + "'",
        "put it there; it is published with the images");
    return std::nullopt;
  }
  // Reading a pipe would block, and a device has no end.
  if (!fs::is_regular_file(status)) {
    fault(name, "it is not a file");
    return std::nullopt;
  }
  std::ifstream file = runner::open_regular(path, std::ios::binary);
  std::string bytes;
  std::string piece(64 << 10, '\0');
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0) {
    bytes.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    if (bytes.size() <= limit) continue;
    fault(name, "it is larger than " + std::to_string(limit >> 20) + " MiB");
    return std::nullopt;
  }
  if (!file.eof()) {
    fault(name, "it cannot be read");
    return std::nullopt;
  }
  if (const auto [what, help] = form_of(bytes); !what.empty()) {
    add(name, ErrorCode::kBadAnnotations, "'" + path.string() + "': it is " + what, help);
    return std::nullopt;
  }
  sha256_.update(name + ' ' + std::to_string(bytes.size()) + '\n');
  sha256_.update(bytes);
  return bytes;
}

void AnnotationFiles::for_lines(const std::string& name, std::size_t limit,
                                const std::function<void(std::size_t, std::string_view)>& use) {
  const auto bytes = read(name, limit);
  if (!bytes) return;
  std::string_view rest = *bytes;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    use(number, line);
  }
}

void AnnotationFiles::fault(const std::string& name, const std::string& what) {
  add(name, ErrorCode::kBadAnnotations, "'" + (folder_ / name).string() + "': " + what, help_);
}

void AnnotationFiles::fault(const std::string& name, std::size_t line, const std::string& what) {
  add(name, ErrorCode::kBadAnnotations,
      "'" + (folder_ / name).string() + "', line " + std::to_string(line) + ": " + what, help_);
}

void AnnotationFiles::add(const std::string& name, ErrorCode code, std::string message,
                          std::string help) {
  auto found = std::ranges::find(faults_, name, &Faults::name);
  if (found == faults_.end()) found = faults_.insert(faults_.end(), {name, {}, 0});
  if (found->first.size() < kShownFaults)
    found->first.push_back({code, {}, "", std::move(message), std::move(help)});
  else ++found->more;
}

runner::Diagnostics AnnotationFiles::errors() const {
  runner::Diagnostics errors;
  for (const Faults& faults : faults_) {
    errors.insert(errors.end(), faults.first.begin(), faults.first.end());
    if (faults.more == 0) continue;
    errors.push_back({ErrorCode::kBadAnnotations,
                      {},
                      "",
                      "'" + (folder_ / faults.name).string() + "' has " +
                          std::to_string(faults.more) + " more errors",
                      help_});
  }
  return errors;
}

}  // namespace stages
