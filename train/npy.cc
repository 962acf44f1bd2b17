#include "train/npy.h"

#include <charconv>

namespace tessera::train {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
struct Row {
  DType dtype;
  std::string_view descr;
};
constexpr Row kTypes[] = {{f64, "<f8"}, {f32, "<f4"}, {f16, "<f2"}, {i64, "<i8"},
                          {i32, "<i4"}, {i8, "|i1"},  {u8, "|u1"},  {boolean, "|b1"}};

Status Damaged(const std::string& what) { return Status(Code::data_loss, "not a .npy that can be mapped: " + what); }

// What follows 'key': in the header, which is a dict of Python.
std::string_view After(std::string_view header, std::string_view key) {
  const size_t at = header.find("'" + std::string(key) + "'");
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + key.size() + 2);
  const size_t value = header.find_first_not_of(": ");
  return value == std::string_view::npos ? std::string_view() : header.substr(value);
}

}  // namespace

Result<std::string> NpyHeader(DType dtype, const Dims& dims) {
  std::string_view descr;
  for (const Row& row : kTypes)
    if (row.dtype == dtype) descr = row.descr;
  if (descr.empty())
    return Status(Code::unsupported, "the .npy format has no " + std::string(Name(dtype)) + "; cast to f32 first");
  std::string dict = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (const int64_t d : dims) dict += std::to_string(d) + ",";
  dict += "), }";
  // Elements begin at a multiple of 64.
  dict.append(63 - (kMagic.size() + 4 + dict.size()) % 64, ' ');
  dict += '\n';
  std::string header(kMagic);
  AppendLittle<uint16_t>(&header, 1);
  AppendLittle(&header, static_cast<uint16_t>(dict.size()));
  return header + dict;
}

Result<NpyLayout> ReadNpyLayout(Bytes file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic) || text.size() < 12) return Damaged("it does not begin like one");
  const int version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3) return Damaged("its version is " + std::to_string(version));
  const size_t length = version == 1 ? ReadLittle<uint16_t>(&file[8]) : ReadLittle<uint32_t>(&file[8]);
  NpyLayout layout;
  layout.begin = version == 1 ? 10 : 12;
  if (length > text.size() - layout.begin) return Damaged("it ends within its header");
  const std::string_view header = text.substr(layout.begin, length);
  layout.begin += length;

  const std::string_view descr = After(header, "descr");
  bool known = false;
  for (const Row& row : kTypes) {
    if (!descr.starts_with("'" + std::string(row.descr) + "'")) continue;
    layout.dtype = row.dtype;
    known = true;
  }
  if (!known) return Damaged("its type is not one of f8 f4 f2 i8 i4 i1 u1 b1 in little-endian order");
  if (!After(header, "fortran_order").starts_with("False")) return Damaged("it is in Fortran order");
  std::string_view shape = After(header, "shape");
  if (!shape.starts_with("(")) return Damaged("it has no shape");
  shape.remove_prefix(1);
  std::vector<int64_t> dims;
  uint64_t bytes = SizeOf(layout.dtype);
  for (;;) {
    shape.remove_prefix(std::min(shape.find_first_not_of(", "), shape.size()));
    if (shape.starts_with(")")) break;
    int64_t dim = 0;
    const auto [end, error] = std::from_chars(shape.data(), shape.data() + shape.size(), dim);
    if (error != std::errc() || dim < 0 || dims.size() == 8) return Damaged("its shape is none");
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) return Damaged("its shape is too large");
    dims.push_back(dim);
    shape.remove_prefix(static_cast<size_t>(end - shape.data()));
  }
  layout.dims = Dims(std::move(dims));
  if (bytes != file.size() - layout.begin)
    return Damaged("it has " + std::to_string(file.size() - layout.begin) +
                   " bytes of elements where its shape needs " + std::to_string(bytes));
  return layout;
}

}  // namespace tessera::train
