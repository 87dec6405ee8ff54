#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace stages {

/// The sums by which files are published. MD5 and SHA-1 find damage, not malice.
enum class DigestKind { kMd5, kSha1, kSha256 };

/// A digest of bytes that come piece by piece.
class Digest {
 public:
  explicit Digest(DigestKind kind);
  Digest(Digest&&) noexcept;
  ~Digest();
  void update(std::string_view bytes);
  /// Lower-case hexadecimal digits; to be asked once, last.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a file's sum has to be.
struct Checksum {
  DigestKind kind = DigestKind::kMd5;
  std::string hex;           ///< lower case
  bool is_git_blob = false;  ///< of "blob <size>\0" and then the file, as git names its blobs
};

/// "MD5", "SHA-1", "SHA-256".
std::string_view name_of(DigestKind kind);

/// The sum of the file's bytes, of the kind that `like` is. `step` is called a mebibyte, with the bytes so far; it may
/// throw. Throws runner::StageError (kMissingFile) where the file cannot be read.
std::string sum_of_file(const std::filesystem::path& file, const Checksum& like,
                        const std::function<void(std::int64_t bytes)>& step);

}  // namespace stages
