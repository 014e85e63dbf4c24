//! The library as a C program finds it: installed, linked shared and static, on real sockets, under
//! valgrind and under the address sanitizer.

mod header;
mod installed;
mod kernels;
mod manual;
mod programs;
mod second_library;
mod symbols;
